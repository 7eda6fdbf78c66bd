// Elements, numbers as people write them, and the note that follows the pointer.
// Text of a program only ever becomes text here: nothing is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function build(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}
const h = (tag, attributes, ...children) => build(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) => build(document.createElementNS(SVG, tag), attributes, children);

const UNKNOWN = "–";
const known = (value) => value !== null && value !== undefined;

/** Three significant digits, without a tail of zeros. */
function digits(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size >= 100 ? Math.round(value).toLocaleString("en") : String(Number(value.toPrecision(3)));
}
function scaled(value, base, units) {
  if (!known(value)) return UNKNOWN;
  let unit = 0;
  while (Math.abs(value) >= base && unit < units.length - 1) { value /= base; unit++; }
  return `${digits(value)}\u202f${units[unit]}`.trimEnd();
}
const time = (us) => known(us) && us !== 0 && Math.abs(us) < 1 ? `${digits(us * 1000)}\u202fns` : scaled(us, 1000, ["µs", "ms", "s"]);
const seconds = (value) => (known(value) ? time(value * 1e6) : UNKNOWN);
const bytes = (value) => scaled(value, 1024, ["B", "KiB", "MiB", "GiB", "TiB"]);
const count = (value) => scaled(value, 1000, ["", "k", "M", "G", "T"]);
const percent = (value) => (known(value) ? `${digits(100 * value)}\u202f%` : UNKNOWN);
const plural = (number, one, many) => `${number.toLocaleString("en")} ${number === 1 ? one : many || one + "s"}`;
const sum = (list) => list.reduce((total, value) => total + (value || 0), 0);

/** The end of a path: what tells files apart. */
const shortPath = (path) => path.split(/[\\/]/).slice(-2).join("/");
const place = (source) => `${shortPath(source.file)}:${source.line}`;

/** Model lines as a list; `most` of them. */
function modelLines(graph, sources, most = 12) {
  const shown = sources.slice(0, most).map((at) => graph.sources[at]).filter(Boolean);
  const left = sources.length - shown.length;
  return h("ul", { class: "lines" },
    shown.map((one) => h("li", {}, h("span", { class: "where mono", title: one.file }, place(one)), one.text && h("code", {}, one.text))),
    left > 0 && h("li", { class: "soft" }, `and ${left} more`));
}

const tip = {
  element: () => document.getElementById("tip"),
  show(event, ...content) {
    const element = this.element();
    element.replaceChildren(...content.flat().filter(Boolean));
    element.hidden = false;
    this.move(event);
  },
  move(event) {
    const element = this.element();
    let { clientX: x, clientY: y } = event;
    if (!known(x) || (x === 0 && y === 0)) {
      const box = event.target.getBoundingClientRect();
      x = box.right; y = box.top;
    }
    const { width, height } = element.getBoundingClientRect();
    element.style.left = `${Math.max(4, x + 16 + width > innerWidth ? x - width - 12 : x + 16)}px`;
    element.style.top = `${Math.max(4, Math.min(y + 14, innerHeight - height - 8))}px`;
  },
  hide() { this.element().hidden = true; },
};

/** Attributes of an element that says more under the pointer. */
function tells(content) {
  return { onpointerenter: (event) => tip.show(event, ...content()), onpointermove: (event) => tip.move(event), onpointerleave: () => tip.hide() };
}
/** And when the keyboard is on it. (Who listens for that can be reached by it, in an SVG: not for everything.) */
const tellsKeys = (content) => ({ ...tells(content), tabindex: "0", role: "button", onfocus: (event) => tip.show(event, ...content()), onblur: () => tip.hide() });
const tipLines = (graph, sources) => sources.slice(0, 4).map((at) => graph.sources[at]).filter(Boolean)
  .map((one) => h("div", { class: "where" }, `${place(one)}  ${one.text}`));
