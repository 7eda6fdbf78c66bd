// Tables that sort, search and end: the first rows, and the rest on request.

const ROWS = 60;

/**
 * columns: [{name, value(row) → what it sorts by, show(row) → what is seen, number, wide, text(row) → what a search sees}]
 * options: {title, note, sort: index, down, open(row), search}
 */
function table(rows, columns, options = {}) {
  if (!rows.length) return options.empty ? h("section", { class: "card" }, h("h2", {}, options.title), h("p", { class: "note" }, options.empty)) : "";
  let sorted = options.sort ?? -1, down = options.down ?? true, wanted = "", all = false;
  const body = h("tbody"), head = h("tr"), more = h("button", { class: "more", onclick: () => { all = true; fill(); } });
  const seen = (column, row) => (column.show ? column.show(row) : column.value(row));
  const found = rows.map((row) => columns.map((column) => String((column.text || column.value)(row) ?? "")).join(" ").toLowerCase());

  function fill() {
    let order = rows.map((_, at) => at);
    if (wanted) order = order.filter((at) => found[at].includes(wanted));
    if (sorted >= 0) {
      const value = columns[sorted].value;
      const compare = (a, b) => (typeof a === "number" || typeof b === "number" ? (a ?? -Infinity) - (b ?? -Infinity) : String(a ?? "").localeCompare(String(b ?? "")));
      order.sort((a, b) => (down ? -1 : 1) * compare(value(rows[a]), value(rows[b])) || a - b);
    }
    const few = all ? order : order.slice(0, ROWS);
    body.replaceChildren(...few.map((at) => {
      const row = rows[at];
      const open = options.open && (() => options.open(row));
      return h("tr", { class: open && "open", tabindex: open && "0", onclick: open, onkeydown: open && ((event) => event.key === "Enter" && open()) },
        columns.map((column) => h("td", { class: [column.number && "n", column.wide && "wide"].filter(Boolean).join(" ") || null }, seen(column, row))));
    }));
    more.hidden = few.length === order.length;
    more.textContent = `Show all ${order.length.toLocaleString("en")}`;
    head.replaceChildren(...columns.map((column, at) => h("th", { class: column.number && "n", "aria-sort": at === sorted ? (down ? "descending" : "ascending") : null },
      h("button", { onclick: () => { down = at === sorted ? !down : Boolean(column.number); sorted = at; fill(); }, title: column.hint }, column.name, at === sorted ? (down ? " ↓" : " ↑") : ""))));
  }
  fill();
  const search = rows.length > 8 && h("input", { type: "search", placeholder: "search", "aria-label": `search ${options.title || ""}`,
    oninput: (event) => { wanted = event.target.value.toLowerCase(); fill(); } });
  return h("section", { class: "card" },
    h("div", { class: "tools" }, h("h2", {}, options.title, options.counted === false ? "" : h("span", { class: "soft" }, `  ${rows.length.toLocaleString("en")}`)), search),
    options.note && h("p", { class: "note" }, options.note),
    h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), body)), more);
}

/** A cell with the first model line of something, and how many more there are. */
function firstLine(graph, sources) {
  const one = graph.sources[sources[0]];
  if (!one) return UNKNOWN;
  return [h("code", {}, one.text || place(one)), h("span", { class: "where mono", title: one.file }, place(one) + (sources.length > 1 ? ` and ${sources.length - 1} more` : ""))];
}
const lineText = (graph, sources) => sources.map((at) => graph.sources[at]).filter(Boolean).map((one) => `${place(one)} ${one.text}`).join(" ");
