// The first thing a reader sees: how long it takes, what it became, what is slowest, and what could not be seen.

function figure(value, name, small, mood) {
  return h("div", { class: `figure ${mood || ""}` }, h("b", {}, value), h("span", {}, name), small && h("small", {}, small));
}

function drawSummary(explanation, graph) {
  const kinds = shares(graph), of = (kind) => kinds.find((one) => one.kind === kind)?.number || 0;
  const faster = known(explanation.whole_us) && known(explanation.eager_us) ? explanation.eager_us / explanation.whole_us : null;
  const fallbacks = of("fallback") + of("eager");
  const since = explanation.kept_since && `Found out on ${explanation.kept_since}, times too, and kept since; cuesta explain --fresh finds it out again.${explanation.not_run ? " The file was not run again: nothing that it read then has changed, nor the environment, nor the machine." : ""}`;
  const figures = h("section", { class: "card" }, since && h("p", { class: "note", id: "since" }, since), h("div", { class: "figures" },
    figure(time(explanation.whole_us), explanation.training ? "a step" : "a call", known(explanation.eager_us) && `eager ${time(explanation.eager_us)}`),
    known(faster) && figure(`${digits(faster)}×`, "as fast as eager", null, faster >= 1 ? "good" : "bad"),
    figure(String(graph.kernels.length), "kernels", plural(of("kernel"), "launch", "launches")),
    figure(String(of("library")), "library calls"),
    figure(String(fallbacks), fallbacks === 1 ? "fallback" : "fallbacks", null, fallbacks ? "bad" : ""),
    graph.memory && figure(bytes(graph.memory.peak_bytes), "memory at the peak", "without arguments"),
    figure(seconds(explanation.compile_seconds), "to compile", graph.own_seconds ? `ours ${seconds(graph.own_seconds)}` : null),
    figure(String(graph.nodes.filter((node) => !["placeholder", "output"].includes(node.operator)).length), "operators in the graph")));

  return [
    graph.outcome !== "compiled" && h("section", { class: "card" }, h("h2", {}, graph.outcome === "eager" ? "This graph runs in eager" : "This graph came from the cache"),
      h("p", {}, graph.why || "Nothing but its record is known.")),
    figures,
    whereTimeGoes(graph, kinds),
    unseen(explanation, graph),
    explanation.breaks.length > 0 && h("section", { class: "card" }, h("h2", {}, "Graph breaks"),
      explanation.breaks.map((one) => [h("p", {}, one.reason), h("ul", { class: "lines" }, one.sources.map((source) =>
        h("li", {}, h("span", { class: "where mono" }, place(source)), h("code", {}, source.text))))])),
  ];
}

function whereTimeGoes(graph, kinds) {
  const total = sum(kinds.map((one) => one.us));
  const steps = flowOf(graph).boxes.filter((box) => box.kind !== "other");
  if (!total) {
    return table(steps.map((box) => box.step), stepColumns(graph, 0), { title: "What runs", note: "Times were not measured." });
  }
  const beside = known(graph.whole_us) ? `All together take ${time(graph.whole_us)} in one run; one by one, each waited for, ${time(total)}.` : null;
  return [
    h("section", { class: "card" }, h("h2", {}, "Where the time goes"),
      beside && h("p", { class: "note" }, beside),
      h("div", { class: "share" }, kinds.map((one) => h("i", { class: one.kind, style: `flex:${Math.max(one.us, total / 2000)}`,
        ...tells(() => [h("b", {}, KINDS[one.kind]), `${time(one.us)} of ${time(total)}, ${one.number} in a run`]) }))),
      h("div", { class: "keys" }, kinds.map((one) => h("span", { class: one.kind }, h("i"), `${KINDS[one.kind]} ${time(one.us)}, ${percent(one.us / total)}`)))),
    table(steps.map((box) => box.step), stepColumns(graph, total),
      { title: "Slowest steps", sort: 1, counted: false, open: (step) => goTo("program", { step: graph.steps.indexOf(step) }) }),
  ];
}

function stepColumns(graph, total) {
  return [
    { name: "step", value: (step) => step.name, show: (step) => [h("span", { class: `tag ${kindOf(graph, step)}` }, kindOf(graph, step)), " ", h("code", {}, shortName(step.name))] },
    { name: "time", number: true, value: (step) => stepTime(graph, step), show: (step) => time(stepTime(graph, step)) },
    total > 0 && { name: "share", number: true, value: (step) => stepTime(graph, step) / total, show: (step) =>
      [h("span", { class: `bar ${kindOf(graph, step)}`, style: `width:${(90 * stepTime(graph, step)) / total + 1}px` }), " ", percent(stepTime(graph, step) / total)] },
    { name: "of the roofline", number: true, value: (step) => subject(graph, step)?.roofline, show: (step) => percent(subject(graph, step)?.roofline) },
    { name: "model line", wide: true, value: (step) => sourcesOf(graph, step)[0], text: (step) => lineText(graph, sourcesOf(graph, step)), show: (step) => firstLine(graph, sourcesOf(graph, step)) },
  ].filter(Boolean);
}

function unseen(explanation, graph) {
  const all = [...explanation.unseen, ...graph.unseen];
  return all.length > 0 && h("section", { class: "card" }, h("h2", {}, "What could not be seen"),
    h("dl", {}, all.map((one) => [h("dt", {}, one.what), h("dd", {}, one.why)])));
}

function machines(explanation) {
  return explanation.machines.length > 0 && h("section", { class: "card" }, h("h2", {}, "The machine"), explanation.machines.map((one) => h("dl", {},
    h("dt", {}, one.device), h("dd", {}, one.name),
    h("dt", {}, "memory"), h("dd", {}, known(one.bytes_per_second) ? `${bytes(one.bytes_per_second)}/s` : UNKNOWN),
    h("dt", {}, "arithmetic"), h("dd", {}, known(one.flops_per_second) ? `${count(one.flops_per_second)}FLOP/s of f32` : UNKNOWN),
    one.matrix_flops_per_second.map(([type, rate]) => [h("dt", {}, `products, ${type}`), h("dd", {}, `${count(rate)}FLOP/s`)]),
    known(one.launch_us) && [h("dt", {}, "a launch"), h("dd", {}, time(one.launch_us))],
    h("dt", {}, "found"), h("dd", {}, one.how))));
}
