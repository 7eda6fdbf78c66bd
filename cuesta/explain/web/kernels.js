// Our kernels, and the calls that are none of ours, as a plot and as tables.

function drawKernels(explanation, graph) {
  const total = sum(graph.steps.map((step) => (kindOf(graph, step) ? stepTime(graph, step) : 0)));
  const spent = (kernel) => sum(kernel.steps.map((at) => stepTime(graph, graph.steps[at])));
  return [
    h("div", { class: "beside" }, drawRoofline(explanation, graph), machines(explanation) || ""),
    table(graph.kernels, [
      { name: "kernel", value: (one) => one.name, show: (one) => h("code", {}, one.name) },
      { name: "time", number: true, value: (one) => one.measured_us, show: (one) => time(one.measured_us), hint: "the median of its launches" },
      { name: "launches", number: true, value: (one) => one.steps.length },
      { name: "share", number: true, value: (one) => (total ? spent(one) / total : 0), show: (one) => (total ? percent(spent(one) / total) : UNKNOWN) },
      { name: "predicted", number: true, value: (one) => one.predicted_us, show: (one) => h("span", { title: one.predicted_by }, time(one.predicted_us)) },
      { name: "roofline", number: true, value: (one) => one.roofline, show: (one) => h("span", { title: one.bound && `bound by ${one.bound}` }, percent(one.roofline)) },
      { name: "reads", number: true, value: (one) => one.bytes_read, show: (one) => bytes(one.bytes_read) },
      { name: "writes", number: true, value: (one) => one.bytes_written, show: (one) => bytes(one.bytes_written) },
      { name: "FLOP", number: true, value: (one) => one.flops, show: (one) => h("span", { title: one.counted }, count(one.flops)) },
      { name: "fused", wide: true, value: (one) => one.operators.length, text: (one) => one.operators.join(" "), show: (one) => h("code", {}, one.operators.map(shortName).join(", ")) },
      { name: "model line", wide: true, value: (one) => one.sources[0], text: (one) => lineText(graph, one.sources), show: (one) => firstLine(graph, one.sources) },
    ], { title: "Kernels", sort: 3, open: (one) => goTo("program", { step: one.steps[0] }), empty: "There is none: everything is a call." }),
    table(graph.calls, [
      { name: "call", value: (one) => one.overload, show: (one) => [h("span", { class: `tag ${one.kind}` }, one.kind), " ", h("code", {}, shortName(one.overload))] },
      { name: "why", wide: true, value: (one) => one.why },
      { name: "predicted", number: true, value: (one) => one.predicted_us, show: (one) => h("span", { title: one.predicted_by }, time(one.predicted_us)) },
      { name: "time", number: true, value: (one) => one.measured_us, show: (one) => time(one.measured_us) },
      { name: "roofline", number: true, value: (one) => one.roofline, show: (one) => percent(one.roofline) },
      { name: "FLOP", number: true, value: (one) => one.flops, show: (one) => count(one.flops) },
      { name: "model line", wide: true, value: (one) => one.sources[0], text: (one) => lineText(graph, one.sources), show: (one) => firstLine(graph, one.sources) },
    ], { title: "Calls, and why they are no kernels", sort: 3, open: (one) => goTo("program", { step: one.step }), empty: "There are none: everything is a kernel of ours." }),
  ];
}
