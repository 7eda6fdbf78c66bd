// One level on the screen. Only the lines that are seen are elements: a text may have a hundred thousand.

const LINE = 18, LONGEST = 700, AROUND = 12;

class Pane {
  constructor(level, act) {
    this.level = level;
    this.strong = new Set(); this.weak = new Set(); this.followed = null;
    this.space = h("div", { style: `height:${level.lines.length * LINE}px` });
    this.window = h("div", { class: "window" });
    this.view = h("div", { class: "view", tabindex: "0", "aria-label": `text at the level ${level.name}` }, this.space, this.window);
    this.marks = h("div", { class: "marks", "aria-hidden": "true" });
    this.element = h("section", { class: "pane", "data-level": level.name },
      h("header", {}, h("b", {}, level.title || level.name), h("span", {}, level.after ? `after ${level.after} · ` : "", plural(level.lines.length, "line"))),
      h("div", { class: "body" }, this.view, this.marks));
    this.view.addEventListener("scroll", () => this.draw());
    const place = (event) => {
      const line = event.target.closest?.(".line");
      return line && { level: level.name, line: Number(line.dataset.at), name: event.target.dataset?.name };
    };
    this.view.addEventListener("mouseover", (event) => { const at = place(event); if (at) act.hover(at); });
    this.view.addEventListener("click", (event) => { const at = place(event); if (at && !String(getSelection())) act.pin(at); });
    new ResizeObserver(() => this.draw(true)).observe(this.view);
  }

  draw(again = false) {
    const first = Math.max(0, Math.floor(this.view.scrollTop / LINE) - AROUND);
    const last = Math.min(this.level.lines.length, Math.ceil((this.view.scrollTop + this.view.clientHeight) / LINE) + AROUND);
    if (!again && this.first === first && this.last === last) return;
    // What is still seen stays as it is, or the element under the pointer would go away.
    this.first = first; this.last = last;
    this.window.style.top = `${first * LINE}px`;
    const lines = [];
    for (let at = first; at < last; at++) lines.push(this.line(at));
    this.window.replaceChildren(...lines);
  }

  line(at) {
    const text = this.level.lines[at], cut = text.length > LONGEST ? `${text.slice(0, LONGEST)} …` : text;
    return h("div", { class: this.classOf(at), "data-at": at, "data-n": at + 1, title: text.length > LONGEST ? `${text.length} characters` : null },
      pieces(cut, this.level.language).map(([part, kind, name]) => (kind ? h("span", { class: kind, "data-name": this.level.name === "model" ? null : name }, part) : part)));
  }

  classOf(at) { return `line${this.strong.has(at) ? " strong" : this.weak.has(at) ? " weak" : ""}`; }

  /** Marks lines, and goes to the first that matters unless one is in sight. */
  mark({ strong, weak }, followed, moves) {
    this.strong = strong; this.weak = weak; this.followed = followed;
    for (const element of this.window.children) {
      const at = Number(element.dataset.at);
      element.className = this.classOf(at);
      for (const name of element.querySelectorAll("[data-name]")) name.classList.toggle("followed", name.dataset.name === followed && (strong.has(at) || weak.has(at)));
    }
    const total = Math.max(1, this.level.lines.length), list = [...strong].sort((a, b) => a - b);
    this.marks.replaceChildren(...list.slice(0, 300).map((at) => h("i", { style: `top:${(100 * at) / total}%` })));
    if (!moves || !list.length) return;
    const top = this.view.scrollTop / LINE, bottom = top + this.view.clientHeight / LINE - 1;
    if (list.some((at) => at >= top && at < bottom)) return;
    this.view.scrollTop = Math.max(0, list[0] * LINE - this.view.clientHeight / 3);
    this.draw();
  }
}
