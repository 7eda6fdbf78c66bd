// The text of a level: its lines, the blocks in it, where a name is defined, and which nodes and model lines a line is about.

const TOKENS = {
  mlir: /(\/\/.*$)|("(?:[^"\\]|\\.)*")|(%[\w.$#-]+)|(@[\w.$-]+)|((?:tensor|vector|!kernel\.ptr|!sym\.int)<[^>]*>+)|(\b\d[\w.]*)|([A-Za-z_][\w.]*)/g,
  python: /(#.*$)|("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(\b(?!\d)[\w]+\b(?=\s*(?::\s*"|=[^=]|[,)\];]|\.|\s|$)))|(\b(?!\d)\w+(?=\())|(\btorch\.[\w.]+)|(\b\d[\w.]*)|([A-Za-z_]\w*)/g,
  llvm: /(;.*$)|("(?:[^"\\]|\\.)*")|(%[\w.$-]+)|(@[\w.$-]+)|(<\d+ x \w+>|\b(?:ptr|i\d+|float|double)\b)|(\b\d[\w.]*)|([A-Za-z_][\w.]*)/g,
};
const CLASSES = [null, "t-note", "t-text", "t-name", "t-func", "t-type", "t-number", "t-word"];
const WORDS = new Set("def return if for in else del import from class and or not is None True False while lambda with as error raise self".split(" "));

class LevelOfProgram {
  constructor(graph, level) {
    Object.assign(this, { graph, name: level.name, after: level.after, language: level.language, lines: level.text.replace(/\n$/, "").split("\n") });
    this.about = new Map(level.lines.map((one) => [one.line - 1, one]));
    if (level.name === "fx") this.readNodes();
    if (level.name === "model") this.about = level.about;
  }

  /** The FX text has no rows of its own: a line that defines a node is about that node. */
  readNodes() {
    const { nodeOfName } = flowOf(this.graph);
    this.lines.forEach((line, at) => {
      const found = /^\s*(\w+)(?::|\s=)/.exec(line), node = found && nodeOfName.get(found[1]);
      if (known(node)) this.about.set(at, { nodes: [node], sources: this.graph.nodes[node].sources });
    });
  }

  indent(at) { return this.lines[at].search(/\S/); }

  /** The first line of the block around a line (or the line itself), and the line after the block. */
  blockFrom(start) {
    const depth = this.indent(start);
    let end = start + 1;
    if (this.language === "llvm") { while (end < this.lines.length && this.lines[end] !== "}") end++; return [start, end + 1]; }
    if (this.language === "mlir" && !this.lines[start].trimEnd().endsWith("{")) return [start, end];
    while (end < this.lines.length && (this.lines[end] === "" || this.indent(end) > depth)) end++;
    return [start, this.language === "mlir" ? end + 1 : end];
  }

  /** The lines of the kernel of that name, where this level has one. */
  kernelBlock(name) {
    this.kernels ||= new Map(this.lines.flatMap((line, at) => {
      const found = /^(?:kernel\.func @|define .*?@|def )([\w.$-]+)\(/.exec(line);
      return found ? [[found[1], at]] : [];
    }));
    const at = this.kernels.get(name);
    return at === undefined ? null : this.blockFrom(at);
  }

  /** The name of the kernel that a line is in. */
  kernelAt(line) {
    for (let at = line; at >= 0; at--) {
      const found = /^(?:kernel\.func @|define .*?@|def )([\w.$-]+)\(/.exec(this.lines[at]);
      if (found) return found[1];
      if (at < line && this.lines[at] === "}") return null;
    }
    return null;
  }

  /** Lines in which a name stands as a whole word. */
  linesWith(name, from = 0, to = this.lines.length) {
    const found = [], word = /[\w.$-]/, sigil = /^[%@]/.test(name);
    for (let at = from; at < to; at++) {
      const line = this.lines[at];
      for (let place = line.indexOf(name); place >= 0; place = line.indexOf(name, place + 1)) {
        const before = line[place - 1] || " ", after = line[place + name.length] || " ";
        if (!(after === "." ? this.language === "llvm" : word.test(after)) && (sigil || !/[\w.%@"]/.test(before))) { found.push(at); break; }
      }
    }
    return found;
  }

  /** The line that defines a name, as it is seen from a line: the last one before it. */
  definition(name, line) {
    const escaped = name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    const defines = new RegExp(this.language === "python" ? `^\\s*${escaped}\\b(?:\\s*:|(?:\\s*,\\s*\\w+)*,?\\s*=)` : `^[^=(]*${escaped}(?![\\w.$-])[^=(]*=|[({,]\\s*${escaped}\\s*[:=]`);
    for (let at = line; at >= 0; at--) if (this.lines[at].includes(name) && defines.test(this.lines[at])) return at;
    return null;
  }
}

/** Pieces of a line: [text, class, what can be followed]. */
function pieces(line, language) {
  const found = [], pattern = TOKENS[language] || TOKENS.mlir;
  let end = 0;
  pattern.lastIndex = 0;
  for (let match; (match = pattern.exec(line)); ) {
    if (match.index > end) found.push([line.slice(end, match.index)]);
    const kind = match.findIndex((part, at) => at > 0 && part !== undefined);
    const word = language === "python" && WORDS.has(match[0]);
    found.push([match[0], word ? "t-word" : CLASSES[kind], !word && (kind === 3 || kind === 4) ? match[0] : null]);
    end = match.index + match[0].length;
  }
  if (end < line.length) found.push([line.slice(end)]);
  return found;
}
