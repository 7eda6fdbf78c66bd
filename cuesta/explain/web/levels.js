// The levels side by side, and the value that is followed through all of them.

const TITLES = { model: "your model", fx: "FX graph", aten: "aten", loops: "loops", fused: "loops, fused", kernel: "kernel", host: "host", triton: "Triton", llvm: "LLVM", wrapper: "wrapper" };
const SHOWN = ["model", "aten", "fused", "kernel", "host"];
const SETTLES = 70;

/** The lines of the model that a graph came from, as if they were a level. */
function modelLevel(graph) {
  const files = new Map(), lines = [], about = new Map();
  graph.sources.forEach((one, at) => (files.has(one.file) ? files.get(one.file) : files.set(one.file, []).get(one.file)).push([one, at]));
  for (const [file, all] of files) {
    if (lines.length) lines.push("");
    lines.push(`# ${file}`);
    for (const [one, at] of all.sort((a, b) => a[0].line - b[0].line)) {
      about.set(lines.length, { nodes: [], sources: [at] });
      lines.push(`${String(one.line).padStart(5)}  ${one.text}`);
    }
  }
  return { name: "model", after: "", language: "python", text: lines.join("\n"), lines: [], about };
}

function levelsOf(graph) {
  graph.read ||= [...(graph.sources.length ? [modelLevel(graph)] : []), ...graph.levels].map((level) => Object.assign(new LevelOfProgram(graph, level), { title: TITLES[level.name] || level.name }));
  return graph.read;
}

function drawLevels(explanation, graph, asked) {
  const levels = levelsOf(graph);
  if (!levels.length) return h("p", { class: "wait" }, "No texts were kept of this graph.");
  const shown = (graph.shown ||= new Set(levels.filter((level) => SHOWN.includes(level.name)).map((level) => level.name)));
  const row = h("div", { class: "levels" }), said = h("div", { class: "following", role: "status" });
  const panes = new Map();
  let pinned = null, current = "", waiting = 0;

  function show(place, moves) {
    const key = JSON.stringify(place);
    if (key === current) return;
    current = key;
    const asked = place && question(graph, levels, place);
    for (const [name, pane] of panes) {
      pane.mark(asked ? answer(graph, pane.level, asked) : { strong: new Set(), weak: new Set() }, asked && asked.level === name ? asked.name : null, moves && (asked?.level !== name || place.finds));
    }
    said.replaceChildren(...(asked ? explain(asked) : [idle()]).flat().filter(Boolean));
  }
  const idle = () => "Point at a value: every level shows what it became. A click holds it, Escape lets go.";
  function explain(asked) {
    const nodes = [...asked.nodes].slice(0, 4).map((at) => graph.nodes[at]).filter(Boolean);
    const steps = asked.steps.slice(0, 3).map((at) => shortName(graph.steps[at].name));
    return [pinned ? "Held: " : "", h("b", {}, asked.title), nodes.length ? `  from ${nodes.map((node) => node.name).join(", ")}${asked.nodes.size > 4 ? " …" : ""}` : "",
      nodes[0]?.module ? ` in ${nodes[0].module}` : "", steps.length ? `  →  ${steps.join(", ")}${asked.steps.length > 3 ? ` and ${asked.steps.length - 3} more` : ""}` : ""];
  }
  const act = {
    hover(place) {
      if (pinned) return;
      clearTimeout(waiting);
      waiting = setTimeout(() => show(place, true), SETTLES);
    },
    pin(place) {
      clearTimeout(waiting);
      pinned = pinned && JSON.stringify(pinned) === JSON.stringify(place) ? null : place;
      current = "";
      show(place, true);
    },
  };
  function arrange() {
    row.replaceChildren(...levels.filter((level) => shown.has(level.name)).map((level) => {
      if (!panes.has(level.name)) panes.set(level.name, new Pane(level, act));
      return panes.get(level.name).element;
    }));
    for (const name of [...panes.keys()]) if (!shown.has(name)) panes.delete(name);
    if (pinned) { const place = pinned; current = ""; requestAnimationFrame(() => show(place, true)); }
  }
  const chips = levels.map((level) => {
    const chip = h("button", { class: "chip", "aria-pressed": String(shown.has(level.name)), "data-chip": level.name, onclick: () => {
      shown.has(level.name) ? shown.delete(level.name) : shown.add(level.name);
      chip.setAttribute("aria-pressed", String(shown.has(level.name)));
      arrange();
    } }, TITLES[level.name] || level.name);
    return chip;
  });
  const element = h("div", {}, h("div", { class: "tools" }, chips, said), row);
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    pinned = null;
    show(null, false);
  });
  said.append(idle());
  arrange();
  if (asked) requestAnimationFrame(() => { pinned = { ...asked, finds: true }; show(pinned, true); });
  return element;
}
