// What the picture and the levels ask of a graph: what feeds what, and in which steps an FX node ended up.

const KINDS = { kernel: "kernels", library: "library calls", fallback: "fallbacks", eager: "run by eager", other: "other" };

/** `kernel`, `library`, `fallback`, `eager` or `other`; null for steps that only handle memory. */
function kindOf(graph, step) {
  if (step.kind === "launch") return "kernel";
  if (step.kind === "call") return graph.calls[step.call]?.kind || "library";
  return ["alloc", "free", "alias", "place"].includes(step.kind) ? null : "other";
}

/** What a step is about: its kernel or its call. */
const subject = (graph, step) => (known(step.kernel) ? graph.kernels[step.kernel] : known(step.call) ? graph.calls[step.call] : null);
const shortName = (name) => name.replace(/^aten\./, "").replace(/\.(default|Tensor)$/, "");
const stepTime = (graph, step) => step.measured_us ?? subject(graph, step)?.measured_us ?? null;
const sourcesOf = (graph, step) => (step.sources.length ? step.sources : subject(graph, step)?.sources || []);

/** Everything derived from one graph, once. */
function flowOf(graph) {
  if (graph.flow) return graph.flow;
  const root = (value) => { for (let left = 100; left && graph.values[value]?.role === "alias" && known(graph.values[value].of); left--) value = graph.values[value].of; return value; };
  const boxes = [], edges = [], writer = new Map(), boxOf = new Map();
  graph.steps.forEach((step, at) => {
    const kind = kindOf(graph, step);
    if (kind === null) return;
    const box = { at, step, kind, in: [], out: [], sources: sourcesOf(graph, step) };
    boxOf.set(at, boxes.length);
    const seen = new Set();
    for (const value of step.reads) {
      const from = writer.get(root(value));
      if (from === undefined || seen.has(from)) continue;
      seen.add(from);
      const edge = { from, to: boxes.length, value };
      boxes[from].out.push(edges.length); box.in.push(edges.length);
      edges.push(edge);
    }
    boxes.push(box);
    for (const value of step.writes) writer.set(root(value), boxes.length - 1);
  });

  // Which steps an FX node ended up in. A view is in none: it cost nothing.
  const stepsOfNode = new Map();
  boxes.forEach((box) => (box.step.nodes || []).forEach((node) => (stepsOfNode.has(node) ? stepsOfNode.get(node).push(box.at) : stepsOfNode.set(node, [box.at]))));
  const nodeOfName = new Map(graph.nodes.map((node, at) => [node.name, at]));
  graph.flow = { boxes, edges, boxOf, stepsOfNode, nodeOfName };
  return graph.flow;
}

/** How the time of a run divides: [{kind, us, number}], of what was measured. */
function shares(graph) {
  const kinds = {};
  graph.steps.forEach((step) => {
    const kind = kindOf(graph, step), us = stepTime(graph, step);
    if (kind === null || kind === "other") return;
    kinds[kind] ||= { kind, us: 0, number: 0, measured: 0 };
    kinds[kind].number++;
    if (known(us)) { kinds[kind].us += us; kinds[kind].measured++; }
  });
  return Object.values(kinds).sort((a, b) => b.us - a.us);
}
