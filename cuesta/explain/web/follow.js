// One value, followed down the slope. What a line is about are FX nodes: passes keep them to the end, and they tell
// repeated layers apart. Names are of one text alone. Generated code has no nodes: there the kernels and calls lead.

/** What is followed, from a place in one level: {level, line, name} or {step}. */
function question(graph, levels, asked) {
  const { stepsOfNode } = flowOf(graph);
  const level = levels.find((one) => one.name === asked.level);
  let about = null, title = asked.name || "", definition = null, steps = [];
  if (known(asked.step)) {
    const step = graph.steps[asked.step];
    return { title: step.name, nodes: new Set(step.nodes), sources: new Set(sourcesOf(graph, step)), steps: [asked.step], name: null, level: null, line: null };
  }
  if (level) {
    let line = asked.line;
    if (line === undefined && asked.name) line = level.linesWith(asked.name)[0];
    if (asked.name && known(line)) definition = level.definition(asked.name, line);
    about = level.about.get(definition ?? line);
    const kernel = asked.name?.startsWith("@") ? asked.name.slice(1) : ["kernel", "llvm", "triton"].includes(level.name) || !about ? level.kernelAt(line ?? 0) : null;
    const found = graph.kernels.find((one) => one.name === kernel) || graph.kernels.find((one) => one.name === asked.name);
    if (found) {
      steps = [...found.steps];
      about ||= { nodes: graph.steps[steps[0]].nodes, sources: found.sources };
      // The text of a kernel that runs many times names the nodes of its first launch only.
      if (["kernel", "llvm", "triton"].includes(level.name)) steps = steps.slice(0, 1);
    }
    if (!about && level.name === "wrapper") steps = stepsAtLine(graph, level, line ?? 0);
    if (!about && steps.length) about = { nodes: steps.flatMap((at) => graph.steps[at].nodes), sources: steps.flatMap((at) => sourcesOf(graph, graph.steps[at])) };
    title ||= (level.lines[line ?? 0] || "").trim().slice(0, 60);
    const nodes = new Set(about?.nodes || []);
    if (level.name !== "model" && !steps.length) steps = [...new Set([...nodes].flatMap((node) => stepsOfNode.get(node) || []))].sort((a, b) => a - b);
    return { title, nodes, sources: new Set(about?.sources || []), steps, name: asked.name, level: level.name, line, definition };
  }
  return null;
}

/** How often something like it ran before a step: which of the lines that call it is this step's. */
const turn = (graph, at) => graph.steps.slice(0, at).filter((step) => step.kind === graph.steps[at].kind && step.name === graph.steps[at].name).length;

function wrapperLines(graph, level) {
  if (level.calls) return level.calls;
  const calls = new Map();
  const add = (key, at) => (calls.has(key) ? calls.get(key).push(at) : calls.set(key, [at]));
  const kernels = new Set(graph.kernels.map((one) => one.name));
  const functions = new Map(graph.calls.map((one) => [one.overload.replace(/^.*?(?:\.|::)/, "").split(".")[0], one.overload]));
  let inside = false;
  level.lines.forEach((line, at) => {
    if (/^def call\b/.test(line)) inside = true;
    else if (/^\S/.test(line)) inside = inside && !line.startsWith("def ");
    if (!inside) return;
    const note = line.lastIndexOf("# ");
    for (const word of (note >= 0 ? line.slice(note + 2) : line).match(/[\w.$]+/g) || []) if (kernels.has(word)) add(word, at);
    const called = /^\s*(?:[\w, ]+=\s*)?(\w+?)(?:_out)?\(/.exec(line);
    if (called && functions.has(called[1])) add(functions.get(called[1]), at);
  });
  level.calls = calls;
  return calls;
}
function stepsAtLine(graph, level, line) {
  const calls = wrapperLines(graph, level);
  return graph.steps.flatMap((step, at) => (kindOf(graph, step) && calls.get(step.name)?.[turn(graph, at)] === line ? [at] : []));
}

/** What corresponds to the nodes in the first launch of a kernel, which its text is about. */
function inFirstLaunch(graph, name, asked) {
  const kernel = graph.kernels.find((one) => one.name === name), found = new Set(), first = kernel ? graph.steps[kernel.steps[0]].nodes : [];
  for (const at of asked.steps) {
    const { name: launched, nodes } = graph.steps[at];
    if (launched === name && nodes.length === first.length) nodes.forEach((node, place) => asked.nodes.has(node) && found.add(first[place]));
  }
  return found;
}

/** Where a level says something about it: {strong, weak}, sets of lines. */
function answer(graph, level, asked) {
  const strong = new Set(), weak = new Set();
  if (level.name === asked.level) {
    if (known(asked.definition)) strong.add(asked.definition);
    else if (known(asked.line)) strong.add(asked.line);
    if (asked.name) {
      const [from, to] = known(asked.definition) ? scope(level, asked.definition) : [0, level.lines.length];
      level.linesWith(asked.name, from, to).forEach((at) => strong.has(at) || weak.add(at));
    }
    if (level.name !== "model") return { strong, weak };
  }
  if (level.name === "model") {
    for (const [at, one] of level.about) if (one.sources.some((source) => asked.sources.has(source))) strong.add(at);
    return { strong, weak };
  }
  if (level.name === "wrapper") {
    const calls = wrapperLines(graph, level);
    for (const at of asked.steps) { const line = calls.get(graph.steps[at].name)?.[turn(graph, at)]; if (known(line)) strong.add(line); }
    return { strong, weak };
  }
  if (["kernel", "triton", "llvm"].includes(level.name)) {
    for (const name of new Set(asked.steps.map((at) => graph.steps[at].name))) {
      const block = level.kernelBlock(name);
      if (!block) continue;
      weak.add(block[0]);
      const nodes = inFirstLaunch(graph, name, asked), same = [], near = [];
      for (let at = block[0] + 1; at < block[1]; at++) {
        const one = level.about.get(at);
        if (one?.nodes.some((node) => nodes.has(node))) same.push(at);
        else if (one?.sources.some((source) => asked.sources.has(source))) near.push(at);
      }
      (same.length ? same : near).forEach((at) => strong.add(at));
    }
    return strong.size ? { strong, weak } : { strong: weak, weak: strong };
  }
  if (!asked.nodes.size) {
    // A line of the model: everything that came from it.
    for (const [at, one] of level.about) if (one.sources.some((source) => asked.sources.has(source))) (one.sources.length === 1 ? strong : weak).add(at);
    return strong.size ? { strong, weak } : { strong: weak, weak: strong };
  }
  let least = Infinity;
  const found = [];
  for (const [at, one] of level.about) {
    const nodes = one.nodes || [];
    if (!nodes.some((node) => asked.nodes.has(node))) continue;
    found.push([at, nodes.length]);
    least = Math.min(least, nodes.length);
  }
  // Of lines that are about several nodes, those that are about the fewest are about this one the most.
  const most = Math.max(least, asked.nodes.size);
  for (const [at, size] of found) (size <= most ? strong : weak).add(at);
  return { strong, weak };
}

/** The lines in which a name means what it means at its definition: those of the block around it. */
function scope(level, definition) {
  if (level.language === "python") return [0, level.lines.length];
  const depth = level.indent(definition), inside = level.lines[definition].trimEnd().endsWith("{") && /[({,]\s*%[\w.]+\s*[:=]/.test(level.lines[definition].replace(/^[^=]*=/, ""));
  let end = definition + 1;
  while (end < level.lines.length && (level.lines[end] === "" || level.indent(end) > (inside ? depth : depth - 1))) end++;
  return [definition, end];
}
