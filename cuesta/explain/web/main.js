// Unpacks the explanation, and shows one part of it at a time.

const TABS = [
  ["summary", "Summary", drawSummary],
  ["program", "Program", drawProgram],
  ["levels", "Levels", drawLevels],
  ["kernels", "Kernels", drawKernels],
  ["decisions", "Decisions", drawDecisions],
  ["memory", "Memory", drawMemory],
  ["time", "Time", drawTimes],
];
const shown = { explanation: null, graph: 0, tab: "summary" };

/** Shows a part of the page; `asked` says what of it: {step}, or {level, name, line}. */
function goTo(tab, asked) {
  const [name, , draw] = TABS.find(([one]) => one === tab) || TABS[0];
  const { explanation } = shown, graph = explanation.graphs[shown.graph];
  shown.tab = name;
  tip.hide();
  for (const button of document.querySelectorAll("[role=tab]")) {
    button.setAttribute("aria-selected", String(button.dataset.tab === name));
    button.tabIndex = button.dataset.tab === name ? 0 : -1;
  }
  const main = document.getElementById("main");
  main.setAttribute("role", "tabpanel");
  const content = graph ? draw(explanation, graph, asked) : noGraph(explanation);
  main.replaceChildren(...[content].flat(9).filter(Boolean));
  main.dataset.tab = name;
  const address = `#${name}${shown.graph ? `/${shown.graph}` : ""}`;
  if (location.hash !== address) history.replaceState(null, "", address);
  if (asked) scrollTo(0, 0);
}

function noGraph(explanation) {
  return [h("section", { class: "card" }, h("h2", {}, "Nothing was compiled"), h("dl", {}, explanation.unseen.map((one) => [h("dt", {}, one.what), h("dd", {}, one.why)])))];
}

async function unpack() {
  const packed = atob(document.getElementById("data").textContent.trim());
  const data = Uint8Array.from(packed, (one) => one.charCodeAt(0));
  const stream = new Blob([data]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}

function begin(explanation) {
  shown.explanation = explanation;
  document.getElementById("program").textContent = shortPath(explanation.name);
  document.getElementById("program").title = explanation.name;
  const devices = [...new Set(explanation.graphs.map((graph) => graph.device).filter(Boolean))];
  document.getElementById("about").textContent = [explanation.training ? "training" : "inference", devices.join(", "), `cuesta ${explanation.cuesta}`, `torch ${explanation.torch}`, explanation.kept_since && `of ${explanation.kept_since}`].filter(Boolean).join(" · ");
  const choose = document.getElementById("graph");
  explanation.graphs.forEach((graph, at) => choose.append(h("option", { value: at }, `${graph.number} · ${graph.kind}${graph.outcome === "compiled" ? "" : `, ${graph.outcome}`} · ${plural(graph.kernels.length, "kernel")}`)));
  document.getElementById("choice").hidden = explanation.graphs.length < 2;
  choose.addEventListener("change", () => { shown.graph = Number(choose.value); goTo(shown.tab); });

  const tabs = document.getElementById("tabs");
  TABS.forEach(([name, title]) => tabs.append(h("button", { role: "tab", "data-tab": name, "aria-controls": "main", onclick: () => goTo(name) }, title)));
  tabs.addEventListener("keydown", (event) => {
    const at = TABS.findIndex(([name]) => name === shown.tab), to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: TABS.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const next = TABS[(to + TABS.length) % TABS.length][0];
    goTo(next);
    tabs.querySelector(`[data-tab=${next}]`).focus();
  });
  const follow = () => {
    const [tab, graph] = location.hash.slice(1).split("/");
    shown.graph = Math.min(Math.max(0, Number(graph) || 0), Math.max(0, explanation.graphs.length - 1));
    choose.value = String(shown.graph);
    goTo(tab || "summary");
  };
  addEventListener("hashchange", follow);
  follow();
  // Texts are drawn when a frame has given them their sizes.
  requestAnimationFrame(() => requestAnimationFrame(() => { document.documentElement.dataset.ready = "yes"; }));
}

unpack().then(begin, (error) => {
  document.getElementById("main").replaceChildren(h("p", { class: "wait" }, `This page cannot be unpacked: ${error.message}. It needs a browser of 2023 or later.`));
});
