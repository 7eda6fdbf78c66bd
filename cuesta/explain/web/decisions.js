// What was decided: pairs that did not fuse, layouts, and schedules with those that lost.

function drawDecisions(explanation, graph) {
  const apart = graph.refusals.filter((one) => one.final), joined = graph.refusals.length - apart.length;
  return [
    table(apart, [
      { name: "reader", value: (one) => one.consumer, text: (one) => `${one.consumer} ${one.nodes.join(" ")}`, show: (one) => nest(one.consumer, one.nodes) },
      { name: "of", value: (one) => one.producer, text: (one) => `${one.producer} ${one.producer_nodes.join(" ")}`, show: (one) => nest(one.producer, one.producer_nodes) },
      { name: "why they stay apart", wide: true, value: (one) => one.reason },
      { name: "between them", number: true, value: (one) => one.bytes, show: (one) => bytes(one.bytes), hint: "bytes in memory that fusing would save" },
      { name: "the reader's line", wide: true, value: (one) => one.sources[0], text: (one) => lineText(graph, one.sources), show: (one) => firstLine(graph, one.sources) },
      { name: "the other's", wide: true, value: (one) => one.producer_sources[0], text: (one) => lineText(graph, one.producer_sources), show: (one) => firstLine(graph, one.producer_sources) },
    ], { title: "Pairs that did not fuse", sort: 3, note: joined ? `${plural(joined, "pair")} more were refused one move and joined by another.` : null,
      empty: "None: whatever could be one nest is one." }),
    table(graph.layouts, [
      { name: "image", value: (one) => one.value, show: (one) => h("code", {}, one.value) },
      { name: "lies", value: (one) => one.chosen },
      { name: "why", wide: true, value: (one) => one.why },
      { name: "model line", wide: true, value: (one) => one.sources[0], text: (one) => lineText(graph, one.sources), show: (one) => firstLine(graph, one.sources) },
    ], { title: "Layouts", empty: "There was no choice: no image, or only one way to lay it out." }),
    graph.kernels.some((one) => one.schedule) && schedules(graph),
  ];
}

/** A nest by its name, and the FX nodes that it computes. */
const nest = (name, nodes) => [h("code", {}, name), h("span", { class: "where mono" }, nodes.slice(0, 3).join(", ") + (nodes.length > 3 ? " …" : ""))];
const price = (one, unit) => (known(one.predicted_us) ? time(one.predicted_us) : known(one.cost) ? `${count(one.cost)} ${unit || ""}`.trim() : "");
const candidate = (one, unit) => h("div", {}, h("code", {}, one.schedule), " ", h("span", { class: "soft" }, [price(one, typeof unit === "string" ? unit : ""), one.why].filter(Boolean).join(", ")));

function schedules(graph) {
  return table(graph.kernels.filter((one) => one.schedule), [
    { name: "kernel", value: (one) => one.name, show: (one) => h("code", {}, one.name) },
    { name: "schedule", wide: true, value: (one) => one.schedule.chosen.schedule, show: (one) => candidate(one.schedule.chosen, one.schedule.unit) },
    { name: "chosen by", value: (one) => one.schedule.chooser || UNKNOWN },
    { name: "of", number: true, value: (one) => one.schedule.considered },
    { name: "rejected, the best first", wide: true, value: (one) => one.schedule.rejected.length, text: (one) => one.schedule.rejected.map((other) => other.schedule).join(" "),
      show: (one) => (one.schedule.rejected.length ? [one.schedule.rejected.slice(0, 3).map((other) => candidate(other, one.schedule.unit)),
        one.schedule.rejected.length > 3 && h("details", { onclick: (event) => event.stopPropagation() }, h("summary", { class: "soft" }, `and ${one.schedule.rejected.length - 3} more`), one.schedule.rejected.slice(3).map((other) => candidate(other, one.schedule.unit)))] : UNKNOWN) },
  ], { title: "Schedules" });
}
