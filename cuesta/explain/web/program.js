// The program as a picture: kernels and calls as boxes, values as lines between them, and beside it what one of them is.

function drawProgram(explanation, graph, asked) {
  const { boxes, edges } = flowOf(graph);
  if (!boxes.length) return h("p", { class: "wait" }, graph.why || "There is nothing to draw: no steps are known.");
  const size = layOut(boxes, edges, 1.4);
  const slowest = Math.max(...boxes.map((box) => stepTime(graph, box.step) || 0), 1e-9);
  const detail = h("aside", { class: "card detail", "aria-live": "polite" }, h("h2", {}, "Nothing chosen"),
    h("p", { class: "note" }, "A box is a kernel or a call, in the order of the program from top to bottom, column by column; its bar is the time it takes. Click one, or reach it with the keyboard: arrows go from box to box along the values. The wheel zooms, dragging moves, 0 shows everything."));

  const marks = edges.map((edge) => {
    const path = wire(boxes[edge.from], boxes[edge.to]), value = graph.values[edge.value];
    const far = boxes[edge.from].column !== boxes[edge.to].column && edge.to > edge.from + 12;
    return s("g", { class: `wire${far ? " far" : ""}`, "data-value": edge.value, ...tells(() => [h("b", {}, `%${value.name}`), h("div", {}, `${value.type}  ${bytes(value.bytes)}`), ...tipLines(graph, value.sources)]) },
      s("path", { class: "edge", d: path }), s("path", { class: "hit", d: path }));
  });
  boxes.forEach((box, at) => { box.element = drawBox(graph, box, slowest, () => choose(at), (event) => walk(event, at)); });
  const group = s("g", {}, marks, boxes.map((box) => box.element));
  const svg = s("svg", { role: "group", "aria-label": "The program as a picture" }, group);
  const view = zoomable(svg, group, () => size);

  function choose(at) {
    const box = boxes[at];
    svg.querySelectorAll(".chosen, .near").forEach((one) => one.classList.remove("chosen", "near"));
    box.element.classList.add("chosen");
    [...box.in, ...box.out].forEach((edge) => marks[edge].classList.add("near"));
    detail.replaceChildren(...[describe(graph, box)].flat(9).filter(Boolean));
    detail.scrollTop = 0;
  }
  function walk(event, at) {
    const box = boxes[at];
    const column = { ArrowDown: box.out.map((edge) => edges[edge].to), ArrowUp: box.in.map((edge) => edges[edge].from), ArrowRight: [at + 1], ArrowLeft: [at - 1] }[event.key];
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); choose(at); }
    if (!column || !boxes[column[0]]) return;
    event.preventDefault();
    const next = boxes[column[0]];
    view.show(next.x + BOX.width / 2, next.y + BOX.height / 2);
    next.element.focus({ preventScroll: true });
    choose(column[0]);
  }
  requestAnimationFrame(() => {
    view.fit();
    const at = known(asked?.step) ? flowOf(graph).boxOf.get(asked.step) : undefined;
    if (at === undefined) return;
    view.show(boxes[at].x + BOX.width / 2, boxes[at].y + BOX.height / 2);
    choose(at);
  });
  const kinds = shares(graph);
  const button = (text, label, act) => h("button", { onclick: act, "aria-label": label, title: label }, text);
  return h("div", { class: "program" },
    h("div", { class: "sheet" }, svg,
      h("div", { class: "keys" }, kinds.map((one) => h("span", { class: one.kind }, h("i"), `${one.number} ${KINDS[one.kind]}`))),
      h("div", { class: "zoom" }, button("−", "zoom out", () => view.zoom(1 / 1.4)), button("+", "zoom in", () => view.zoom(1.4)), button("fit", "show everything", () => view.fit()))),
    detail);
}

/** `modeling_…py:569`: the file may be cut, the number not. */
function shortLine(source, most) {
  const file = source.file.split(/[\\/]/).pop(), number = `:${source.line}`, room = most - number.length;
  return (file.length > room ? `${file.slice(0, Math.max(1, room - 1))}…` : file) + number;
}

function drawBox(graph, box, slowest, choose, walk) {
  const us = stepTime(graph, box.step), name = shortName(box.step.name);
  const fits = name.length > 24 ? `${name.slice(0, 23)}…` : name;
  const sources = box.sources;
  const first = graph.sources[sources[0]];
  const operators = subject(graph, box.step)?.operators || [];
  return s("g", { class: `box ${box.kind}`, "aria-label": `${KINDS[box.kind]}: ${name}`, transform: `translate(${box.x} ${box.y})`, "data-step": box.at,
    onclick: choose, onkeydown: walk, ...tellsKeys(() => [h("b", {}, name), h("div", {}, `${time(us)}${operators.length ? `, ${plural(operators.length, "operator")}` : ""}`), ...tipLines(graph, sources)]) },
    s("rect", { class: "body", width: BOX.width, height: BOX.height, rx: 7 }),
    known(us) && s("rect", { class: "heat", x: 1, y: BOX.height - 4, height: 3, width: Math.max(1, (us / slowest) * (BOX.width - 2)), rx: 1.5 }),
    s("text", { x: 10, y: 17 }, fits),
    s("text", { x: 10, y: 31, class: "soft" }, [known(us) ? time(us) : null, first && shortLine(first, 18)].filter(Boolean).join("  ·  ")));
}

/** What stands beside the picture, of one box. */
function describe(graph, box) {
  const { step } = box, one = subject(graph, step) || {}, pairs = [];
  const row = (name, value) => known(value) && value !== "" && pairs.push(h("dt", {}, name), h("dd", {}, value));
  row("kind", box.kind);
  row("why", one.why);
  row("measured", known(stepTime(graph, step)) ? time(stepTime(graph, step)) : one.measured_how);
  row("predicted", known(one.predicted_us) ? time(one.predicted_us) : one.predicted_by);
  row("roofline", known(one.roofline) ? `${percent(one.roofline)}${one.bound ? `, bound by ${one.bound}` : ""}` : null);
  row("reads", known(one.bytes_read) ? bytes(one.bytes_read) : null);
  row("writes", known(one.bytes_written) ? bytes(one.bytes_written) : null);
  row("arithmetic", known(one.flops) ? `${count(one.flops)} FLOP` : null);
  row("counted", one.counted);
  row("domain", one.domain);
  row("schedule", one.schedule && h("code", {}, one.schedule.chosen.schedule || UNKNOWN));
  row("launches", one.steps && one.steps.length > 1 ? `${one.steps.length} in a run` : null);
  const values = (list) => h("ul", { class: "lines" }, list.slice(0, 12).map((at) => graph.values[at]).filter(Boolean).map((value) =>
    h("li", {}, h("button", { class: "link mono", onclick: () => goTo("levels", { level: "host", name: `%${value.name}` }) }, `%${value.name}`), h("span", { class: "where" }, `  ${value.type}`))),
    list.length > 12 && h("li", { class: "soft" }, `and ${list.length - 12} more`));
  return [
    h("h2", {}, step.name),
    h("button", { class: "chip", onclick: () => goTo("levels", { step: box.at }) }, "Follow in the levels"),
    h("dl", {}, pairs),
    box.sources.length > 0 && [h("h3", {}, "Model lines"), modelLines(graph, box.sources)],
    one.operators?.length > 0 && [h("h3", {}, "Operators"), h("p", {}, h("code", {}, one.operators.map(shortName).join(", ")))],
    step.reads.length > 0 && [h("h3", {}, "Reads"), values(step.reads)],
    step.writes.length > 0 && [h("h3", {}, "Writes"), values(step.writes)],
  ];
}
