// A drawing that is moved by dragging, zoomed by the wheel, by two fingers' pinch (which is a wheel), and by keys.

/** Moves and scales `group` inside of `svg`; `size()` is what `fit` shows. */
function zoomable(svg, group, size) {
  const view = { x: 0, y: 0, scale: 1, touched: false };
  const apply = () => group.setAttribute("transform", `translate(${view.x} ${view.y}) scale(${view.scale})`);
  const area = () => svg.getBoundingClientRect();

  view.zoom = (factor, x = area().width / 2, y = area().height / 2) => {
    const scale = Math.min(6, Math.max(0.02, view.scale * factor));
    view.x = x - ((x - view.x) * scale) / view.scale;
    view.y = y - ((y - view.y) * scale) / view.scale;
    view.scale = scale;
    view.touched = true;
    apply();
  };
  view.fit = () => {
    const { width, height } = size(), room = area(), space = 34;
    if (!room.width) return;
    view.scale = Math.min(1.4, (room.width - 2 * space) / width, (room.height - 2 * space) / height);
    view.x = (room.width - width * view.scale) / 2;
    view.y = Math.max(space, (room.height - height * view.scale) / 2);
    view.touched = false;
    apply();
  };
  /** Brings a point of the drawing into the middle, large enough to be read. */
  view.show = (x, y) => {
    const room = area();
    view.scale = Math.max(view.scale, 0.85);
    view.x = room.width / 2 - x * view.scale;
    view.y = room.height / 2 - y * view.scale;
    view.touched = true;
    apply();
  };

  svg.addEventListener("wheel", (event) => {
    event.preventDefault();
    const room = area();
    view.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0016)), event.clientX - room.left, event.clientY - room.top);
  }, { passive: false });
  let from = null;
  svg.addEventListener("pointerdown", (event) => { if (event.button === 0) from = { x: event.clientX - view.x, y: event.clientY - view.y, moved: false, startX: event.clientX, startY: event.clientY }; });
  svg.addEventListener("pointermove", (event) => {
    if (!from) return;
    if (!from.moved && Math.hypot(event.clientX - from.startX, event.clientY - from.startY) < 4) return;
    if (!from.moved) { from.moved = true; svg.setPointerCapture(event.pointerId); svg.classList.add("dragged"); tip.hide(); }
    view.x = event.clientX - from.x;
    view.y = event.clientY - from.y;
    view.touched = true;
    apply();
  });
  const end = () => { from = null; svg.classList.remove("dragged"); };
  svg.addEventListener("pointerup", end);
  svg.addEventListener("pointercancel", end);
  svg.addEventListener("keydown", (event) => {
    const moves = { "+": () => view.zoom(1.3), "=": () => view.zoom(1.3), "-": () => view.zoom(1 / 1.3), 0: () => view.fit() };
    if (moves[event.key] && !event.ctrlKey && !event.metaKey) { event.preventDefault(); moves[event.key](); }
  });
  new ResizeObserver(() => { if (!view.touched) view.fit(); }).observe(svg);
  return view;
}
