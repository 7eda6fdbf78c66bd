// Kernels and calls under the roofs of their machine: arithmetic for each byte, and what was reached, both logarithmic.

function drawRoofline(explanation, graph) {
  const rows = [];
  graph.kernels.forEach((one) => rows.push({ one, kind: "kernel", name: one.name, device: one.device, step: one.steps[0], runs: one.steps.length }));
  graph.calls.forEach((one) => rows.push({ one, kind: one.kind, name: shortName(one.overload), device: graph.device, step: one.step, runs: 1 }));
  const points = rows.filter(({ one }) => one.measured_us > 0 && one.bytes_read + one.bytes_written > 0).map((row) => {
    const moved = row.one.bytes_read + row.one.bytes_written, took = row.one.measured_us / 1e6;
    return { ...row, moved, took, work: row.one.flops || 0, intensity: (row.one.flops || 0) / moved, rate: (row.one.flops || 0) / took };
  });
  const machine = explanation.machines.find((one) => one.device === (points[0]?.device || graph.device)) || explanation.machines[0];
  const why = !points.length ? "Nothing was measured whose bytes are known." : !machine?.bytes_per_second || !machine?.flops_per_second ? `What the machine can do is not known. ${machine?.how || ""}` : null;
  if (why) return h("section", { class: "card" }, h("h2", {}, "Roofline"), h("p", { class: "note" }, why));

  const matrix = machine.matrix_flops_per_second, highest = Math.max(machine.flops_per_second, ...matrix.map(([, rate]) => rate));
  const power = (value, up) => 10 ** (up ? Math.ceil(Math.log10(value)) : Math.floor(Math.log10(value)));
  const some = points.filter((one) => one.work > 0);
  const low = power(Math.min(0.1, ...some.map((one) => one.intensity)));
  const high = power(Math.max((10 * highest) / machine.bytes_per_second, ...some.map((one) => 1.5 * one.intensity)), true);
  // What computes nothing has a place at the left edge, as high as its bytes would lift it.
  points.forEach((one) => { if (!one.work) { one.intensity = low; one.rate = (low * one.moved) / one.took; } });
  const bottom = power(Math.min(machine.bytes_per_second * low, ...points.map((one) => one.rate)));
  const top = power(Math.max(highest, ...points.map((one) => one.rate)), true);
  const W = 760, H = 400, left = 62, right = 14, above = 12, below = 40;
  const x = (value) => left + ((W - left - right) * Math.log10(value / low)) / Math.log10(high / low);
  const y = (value) => H - below - ((H - above - below) * Math.log10(value / bottom)) / Math.log10(top / bottom);

  const powers = (from, to) => { const list = []; for (let p = Math.round(Math.log10(from)); p <= Math.round(Math.log10(to)); p++) list.push(10 ** p); return list; };
  const axis = s("g", { class: "axis" },
    powers(low, high).map((value) => [s("line", { class: "grid", x1: x(value), x2: x(value), y1: above, y2: H - below }), s("text", { x: x(value), y: H - below + 15, "text-anchor": "middle" }, digits(value))]),
    powers(bottom, top).map((value) => [s("line", { class: "grid", x1: left, x2: W - right, y1: y(value), y2: y(value) }), s("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, count(value))]),
    s("text", { x: (W + left) / 2, y: H - 5, "text-anchor": "middle" }, "arithmetic for each byte of memory (FLOP/B)"),
    s("text", { x: 13, y: H / 2 - 14, "text-anchor": "middle", transform: `rotate(-90 13 ${H / 2 - 14})` }, "FLOP/s"));
  const roof = (rate, kind, name) => {
    const knee = rate / machine.bytes_per_second;
    return [s("path", { class: `roof ${kind}`, d: `M${x(Math.max(knee, low))} ${y(rate)}L${x(high)} ${y(rate)}` }), s("text", { class: "soft", x: x(high) - 4, y: y(rate) - 5, "text-anchor": "end" }, `${name}  ${count(rate)}`)];
  };
  const start = Math.max(low, bottom / machine.bytes_per_second), end = highest / machine.bytes_per_second;
  const slope = Math.atan2(y(end * machine.bytes_per_second) - y(start * machine.bytes_per_second), x(end) - x(start));
  const middle = Math.sqrt(start * end);
  const all = sum(points.map((one) => one.took * one.runs));
  points.sort((a, b) => b.took - a.took);
  const svg = s("svg", { viewBox: `0 0 ${W} ${H}`, role: "group", "aria-label": "Roofline" }, axis,
    s("path", { class: "roof", d: `M${x(start)} ${y(start * machine.bytes_per_second)}L${x(end)} ${y(highest)}` }),
    s("text", { class: "soft", "text-anchor": "middle", transform: `translate(${x(middle)} ${y(middle * machine.bytes_per_second) - 7}) rotate(${(slope * 180) / Math.PI})` }, `memory ${bytes(machine.bytes_per_second)}/s`),
    roof(machine.flops_per_second, "", "f32"),
    matrix.filter(([, rate]) => Math.abs(Math.log10(rate / machine.flops_per_second)) > 0.04).map(([type, rate]) => roof(rate, "matrix", `products ${type}`)),
    points.map((one) => s("circle", { class: `point ${one.kind}${one.work ? "" : " hollow"}`, cx: x(one.intensity), cy: y(one.rate), r: 4 + 15 * Math.sqrt((one.took * one.runs) / all), "data-point": one.name, "aria-label": `${one.name}: ${percent(one.one.roofline)} of the roofline`,
      onclick: () => goTo("program", { step: one.step }), onkeydown: (event) => event.key === "Enter" && goTo("program", { step: one.step }),
      ...tellsKeys(() => [h("b", {}, one.name), h("div", {}, `${percent(one.one.roofline)} of the roofline${one.one.bound ? `, bound by ${one.one.bound}` : ""}`),
        h("div", {}, `${time(one.one.measured_us)}${one.runs > 1 ? ` × ${one.runs}` : ""}, ${bytes(one.moved)}, ${count(one.work)}${one.work < 1000 ? " " : ""}FLOP`), ...tipLines(graph, one.one.sources)]) })));
  return h("section", { class: "card plot roofline" }, h("h2", {}, "Roofline"),
    h("p", { class: "note" }, "The higher, the more arithmetic in a second; on a roof, the machine can do no more. The larger, the more of a run's time. What computes nothing stands hollow at the left edge."),
    svg, legend(points.map((one) => one.kind)));
}

const legend = (kinds) => h("div", { class: "keys" }, [...new Set(kinds)].map((kind) => h("span", { class: kind }, h("i"), KINDS[kind] || kind)));
