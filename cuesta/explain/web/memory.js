// Memory over the steps of a run, and what is alive when most of it is.

function drawMemory(explanation, graph) {
  const memory = graph.memory;
  if (!memory || !memory.points.length) return h("p", { class: "wait" }, graph.why || "Nothing is known of its memory.");
  const W = 1100, H = 250, left = 70, below = 26, points = memory.points, last = Math.max(1, points.length - 1);
  const most = Math.max(...points.map((one) => one.own), 1);
  const x = (at) => left + ((W - left - 8) * at) / last, y = (value) => H - below - ((H - below - 14) * value) / most;
  const line = points.map((one, at) => `${at ? `H${x(at)}` : `M${x(0)} ${y(0)}`}V${y(one.own)}`).join("");
  const cursor = s("line", { class: "cursor", y1: 8, y2: H - below, visibility: "hidden" });
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((part) => part * most);
  const peak = points.findIndex((one) => one.step === memory.peak_step);
  const area = s("rect", { x: left, y: 0, width: W - left - 8, height: H - below, fill: "transparent", tabindex: "0", role: "slider", "aria-label": "step", "aria-valuemin": 0, "aria-valuemax": last, "aria-valuenow": Math.max(0, peak) });
  const svg = s("svg", { viewBox: `0 0 ${W} ${H}`, role: "group", "aria-label": "Memory over time" },
    s("g", { class: "axis" }, ticks.map((value) => [s("line", { class: "grid", x1: left, x2: W - 8, y1: y(value), y2: y(value) }), s("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, bytes(value))]),
      s("text", { x: left, y: H - 6 }, "first step"), s("text", { x: W - 8, y: H - 6, "text-anchor": "end" }, "last")),
    s("path", { class: "area", d: `${line}V${y(0)}Z` }),
    peak >= 0 && s("text", { class: "soft", x: Math.min(W - 90, x(peak) + 6), y: y(points[peak].own) - 4 }, `peak ${bytes(memory.peak_bytes)}`), cursor, area);
  let now = Math.max(0, peak);
  const look = (at) => {
    now = Math.min(last, Math.max(0, at));
    const one = points[now], step = graph.steps[one.step];
    cursor.setAttribute("x1", x(now)); cursor.setAttribute("x2", x(now)); cursor.setAttribute("visibility", "visible");
    area.setAttribute("aria-valuenow", now);
    return [h("b", {}, step ? step.name : ""), h("div", {}, `step ${now + 1} of ${points.length}: ${bytes(one.own)}, with arguments ${bytes(one.alive)}`), ...(step ? tipLines(graph, sourcesOf(graph, step)) : [])];
  };
  const at = (event) => { const box = svg.getBoundingClientRect(); return Math.round(((((event.clientX - box.left) / box.width) * W - left) / (W - left - 8)) * last); };
  area.addEventListener("pointermove", (event) => tip.show(event, ...look(at(event))));
  area.addEventListener("pointerleave", () => { tip.hide(); cursor.setAttribute("visibility", "hidden"); });
  area.addEventListener("blur", () => tip.hide());
  area.addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (by) { event.preventDefault(); tip.show(event, ...look(now + by)); }
  });
  const values = memory.alive_at_peak.map((one) => graph.values[one]).filter(Boolean);
  const own = values.filter((value) => !["argument", "constant"].includes(value.role)), given = values.length - own.length;
  const largest = Math.max(1, ...own.map((value) => value.bytes || 0));
  const columns = [
    { name: "value", value: (one) => one.name, show: (one) => h("button", { class: "link mono", onclick: () => goTo("levels", { level: "host", name: `%${one.name}` }) }, `%${one.name}`) },
    { name: "bytes", number: true, value: (one) => one.bytes, show: (one) => bytes(one.bytes) },
    { name: "", value: (one) => one.bytes, show: (one) => h("span", { class: "bar kernel", style: `width:${(130 * (one.bytes || 0)) / largest}px` }) },
    { name: "type", value: (one) => one.type, show: (one) => h("code", {}, one.type) },
    { name: "what it is", value: (one) => one.role },
    { name: "model line", wide: true, value: (one) => one.sources[0], text: (one) => lineText(graph, one.sources), show: (one) => firstLine(graph, one.sources) },
  ];
  return [
    h("section", { class: "card plot" }, h("h2", {}, "Memory over time"),
      h("p", { class: "note" }, [`Buffers, arenas and results of calls, step by step; at most ${bytes(memory.peak_bytes)}, and ${bytes(Math.max(...points.map((one) => one.alive)))} with arguments.`,
        known(memory.measured_peak_bytes) ? ` The device's allocator counted ${bytes(memory.measured_peak_bytes)}.` : "", memory.notes.length ? ` ${memory.notes.join(". ")}.` : ""].join("")), svg),
    table(own, columns, { title: "Alive at the peak", sort: 1, note: given ? `Besides ${plural(given, "argument or constant", "arguments and constants")}.` : null, empty: "Nothing but arguments." }),
  ];
}
