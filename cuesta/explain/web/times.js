// Two timelines, of a run and of the compilation, and the stages and rewrites that the compilation is made of.

/** rows: [{name, events: [{start_us, duration_us, kind, name, step}]}]; drag moves, the wheel zooms, 0 shows everything. */
function timeline(graph, rows, title, open) {
  const W = 1100, left = 92, row = 26, H = rows.length * row + 26;
  const begin = Math.min(...rows.flatMap((one) => one.events.map((event) => event.start_us)));
  const end = Math.max(begin + 1e-3, ...rows.flatMap((one) => one.events.map((event) => event.start_us + event.duration_us)));
  const axis = s("g", { class: "axis" }), marks = s("g", {}), clip = `clip-${title.replace(/\W/g, "")}`;
  const svg = s("svg", { viewBox: `0 0 ${W} ${H}`, tabindex: "0", role: "group", "aria-label": title },
    s("clipPath", { id: clip }, s("rect", { x: left, y: 0, width: W - left, height: H })),
    rows.map((one, at) => s("text", { class: "soft", x: 0, y: at * row + 16 }, one.name.slice(0, 14))), axis, s("g", { "clip-path": `url(#${clip})` }, marks));
  let from = begin, to = end;
  const x = (us) => left + ((W - left) * (us - from)) / (to - from);
  const kindOfEvent = (event) => (known(event.step) && graph.steps[event.step] && event.kind !== "stage" ? kindOf(graph, graph.steps[event.step]) : event.kind) || "other";
  const elements = rows.flatMap((one, at) => one.events.map((event) => {
    const rect = s("rect", { class: `event ${kindOfEvent(event)}`, y: at * row + 3, height: row - 8, rx: 2, "data-event": event.name, onclick: () => open?.(event),
      ...tells(() => [h("b", {}, event.name), h("div", {}, `${time(event.duration_us)}, ${time(event.start_us - begin)} after the beginning`),
        ...(known(event.step) && graph.steps[event.step] ? tipLines(graph, sourcesOf(graph, graph.steps[event.step])) : [])]) });
    return [event, rect];
  }));
  marks.append(...elements.map(([, rect]) => rect));
  function draw() {
    for (const [event, rect] of elements) {
      const start = x(event.start_us), wide = Math.max(0.6, x(event.start_us + event.duration_us) - start - 0.4);
      const seen = start < W && start + wide > left;
      rect.setAttribute("display", seen ? "" : "none");
      if (seen) { rect.setAttribute("x", start); rect.setAttribute("width", wide); }
    }
    const rough = (to - from) / 7, power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].find((one) => one * power >= rough) * power;
    axis.replaceChildren();
    for (let at = Math.ceil((from - begin) / step) * step; at + begin <= to; at += step) {
      const place = x(at + begin);
      axis.append(s("line", { class: "grid", x1: place, x2: place, y1: 0, y2: H - 20 }), s("text", { x: Math.min(place, W - 20), y: H - 6, "text-anchor": "middle" }, at ? time(at) : "0"));
    }
  }
  const zoom = (factor, middle) => {
    const span = Math.min(end - begin, Math.max((end - begin) / 5000, (to - from) * factor)), part = (middle - from) / (to - from);
    from = Math.max(begin, Math.min(end - span, middle - part * span)); to = from + span; draw();
  };
  const move = (us) => { const span = to - from; from = Math.max(begin, Math.min(end - span, from + us)); to = from + span; draw(); };
  const under = (event) => { const box = svg.getBoundingClientRect(); return from + (((((event.clientX - box.left) / box.width) * W - left) / (W - left)) * (to - from)); };
  svg.addEventListener("wheel", (event) => { if (event.ctrlKey || event.shiftKey || to - from < end - begin || event.deltaY < 0) { event.preventDefault(); zoom(Math.exp(event.deltaY * 0.0016), under(event)); } }, { passive: false });
  let grip = null;
  svg.addEventListener("pointerdown", (event) => { grip = under(event); });
  svg.addEventListener("pointermove", (event) => { if (grip !== null && event.buttons) move(grip - under(event)); });
  addEventListener("pointerup", () => { grip = null; });
  svg.addEventListener("keydown", (event) => {
    const act = { "+": () => zoom(1 / 1.4, (from + to) / 2), "=": () => zoom(1 / 1.4, (from + to) / 2), "-": () => zoom(1.4, (from + to) / 2), 0: () => { from = begin; to = end; draw(); },
      ArrowLeft: () => move((from - to) / 8), ArrowRight: () => move((to - from) / 8) }[event.key];
    if (act) { event.preventDefault(); act(); }
  });
  draw();
  return svg;
}

function drawTimes(explanation, graph) {
  const run = graph.events, lanes = new Map();
  for (const event of explanation.events) {
    const name = event.kind === "capture" ? "capture" : `${known(event.graph) ? `graph ${event.graph} ` : ""}${event.kind === "code" ? "code" : "stages"}`;
    lanes.has(name) ? lanes.get(name).push(event) : lanes.set(name, [event]);
  }
  const compiled = [...lanes].map(([name, events]) => ({ name, events }));
  return [
    run.length > 0 ? h("section", { class: "card time" }, h("h2", {}, "A run, step by step"),
      h("p", { class: "note" }, `Medians of ${plural(graph.runs, "run")}, each step waited for. The wheel zooms, dragging moves, 0 shows everything. ${known(graph.whole_us) ? `All together, not waited for: ${time(graph.whole_us)}.` : ""}`),
      timeline(graph, [{ name: "run", events: run }], "A run", (event) => known(event.step) && goTo("program", { step: event.step })), legend(run.map((event) => kindOf(graph, graph.steps[event.step] || {}) || "other")))
      : h("section", { class: "card" }, h("h2", {}, "A run, step by step"), h("p", { class: "note" }, "Times were not measured.")),
    compiled.length > 0 && h("section", { class: "card time" }, h("h2", {}, "The compilation"),
      h("p", { class: "note" }, `The first call took ${seconds(explanation.compile_seconds)}: PyTorch's capture ${seconds(sum(explanation.graphs.map((one) => one.capture_seconds)))}, ours ${seconds(sum(explanation.graphs.map((one) => one.own_seconds)))}.`),
      timeline(graph, compiled, "The compilation")),
    table(graph.stages, [
      { name: "#", number: true, value: (one) => graph.stages.indexOf(one) + 1 },
      { name: "stage", value: (one) => one.name, show: (one) => h("code", {}, one.name) },
      { name: "time", number: true, value: (one) => one.seconds, show: (one) => seconds(one.seconds) },
      { name: "ops", number: true, value: (one) => (one.ops_after ?? 0) - (one.ops_before ?? 0), show: (one) => (known(one.ops_after) ? (one.ops_before === one.ops_after ? one.ops_after : `${one.ops_before ?? ""} → ${one.ops_after}`) : "") },
      { name: "level", value: (one) => one.level },
      { name: "what it is for", wide: true, value: (one) => one.why },
    ], { title: "Stages of this graph", sort: 0, down: false }),
    table(graph.rewrites, [
      { name: "rule", value: (one) => one.rule, show: (one) => [h("code", {}, one.rule), h("span", { class: "where mono" }, one.place)] },
      { name: "stage", value: (one) => one.stage, show: (one) => h("code", {}, one.stage) },
      { name: "time", number: true, value: (one) => one.seconds, show: (one) => seconds(one.seconds) },
      { name: "tried", number: true, value: (one) => one.tried },
      { name: "fired", number: true, value: (one) => one.fired },
      { name: "why it did not", wide: true, value: (one) => sum(one.refusals.map(([, times]) => times)), text: (one) => one.refusals.map(([reason]) => reason).join(" "), show: (one) => one.refusals.slice(0, 4).map(([reason, times]) => h("div", {}, `${times} × ${reason}`)) },
    ], { title: "Rewrites of this graph", sort: 2 }),
  ];
}
