// Where the boxes of the picture stand: in layers, each below what it reads, the layers in columns like a newspaper's.
// Every part is linear in the graph, but for the sorting inside of a layer.

const BOX = { width: 172, height: 40, across: 26, down: 26, gutter: 96 };

/** Gives each box `x` and `y`; returns the size of the sheet. `shape` is the wanted width by height. */
function layOut(boxes, edges, shape) {
  const layers = [];
  for (const box of boxes) {
    box.layer = box.in.length ? 1 + Math.max(...box.in.map((edge) => boxes[edges[edge].from].layer)) : 0;
  }
  // What nobody feeds stands right above its first reader, and not at the top with all the others.
  for (const box of boxes) {
    if (!box.in.length && box.out.length) box.layer = Math.max(0, Math.min(...box.out.map((edge) => boxes[edges[edge].to].layer)) - 1);
  }
  for (const box of boxes) (layers[box.layer] ||= []).push(box);
  const rows = layers.filter(Boolean);
  order(rows, boxes, edges);

  const widths = rows.map((row) => row.length * (BOX.width + BOX.across) - BOX.across);
  const perColumn = rowsPerColumn(widths, shape);
  let left = 0, bottom = 0;
  for (let start = 0; start < rows.length; start += perColumn) {
    const part = rows.slice(start, start + perColumn);
    const wide = Math.max(...widths.slice(start, start + perColumn));
    part.forEach((row, at) => {
      const offset = left + (wide - widths[start + at]) / 2;
      row.forEach((box, place) => {
        box.x = offset + place * (BOX.width + BOX.across);
        box.y = at * (BOX.height + BOX.down);
        box.column = start / perColumn;
        box.row = at;
      });
    });
    left += wide + BOX.gutter;
    bottom = Math.max(bottom, part.length * (BOX.height + BOX.down) - BOX.down);
  }
  return { width: Math.max(left - BOX.gutter, BOX.width), height: Math.max(bottom, BOX.height) };
}

/** Each layer in the order of the middle of what it reads, then of what reads it. */
function order(rows, boxes, edges) {
  const settle = (row) => row.forEach((box, place) => { box.place = (place + 0.5) / row.length; });
  rows.forEach(settle);
  const sweep = (list, near) => {
    for (const row of list) {
      if (row.length < 2) continue;
      const middle = new Map(row.map((box) => { const around = near(box); return [box, around.length ? sum(around) / around.length : box.place]; }));
      row.sort((a, b) => middle.get(a) - middle.get(b) || a.at - b.at);
      settle(row);
    }
  };
  sweep(rows, (box) => box.in.map((edge) => boxes[edges[edge].from].place));
  sweep([...rows].reverse(), (box) => box.out.map((edge) => boxes[edges[edge].to].place));
  sweep(rows, (box) => box.in.map((edge) => boxes[edges[edge].from].place));
}

/** How many layers a column takes, so that the whole is as large as can be on a sheet of that shape. */
function rowsPerColumn(widths, shape) {
  const high = BOX.height + BOX.down;
  let best = widths.length, size = Infinity;
  for (let columns = 1; columns <= Math.min(24, widths.length); columns++) {
    const rows = Math.ceil(widths.length / columns);
    let wide = 0;
    for (let start = 0; start < widths.length; start += rows) wide += Math.max(...widths.slice(start, start + rows)) + BOX.gutter;
    const needs = Math.max(wide / shape, rows * high);
    if (needs < size) [best, size] = [rows, needs];
  }
  return best;
}

/** The line of a value from one box to another. */
function wire(from, to) {
  const middle = BOX.width / 2, { x: fx, y: fy } = from, { x: tx, y: ty } = to;
  if (from.column === to.column && to.row === from.row + 1) {
    const [y, end] = [fy + BOX.height, ty], half = (end - y) / 2;
    return `M${fx + middle} ${y}C${fx + middle} ${y + half} ${tx + middle} ${end - half} ${tx + middle} ${end}`;
  }
  if (from.column === to.column) {
    // Past the boxes between, in the gutter on the right; the further it goes, the further out.
    const x = fx + BOX.width, end = tx + BOX.width, out = Math.max(x, end) + Math.min(14 + 5 * (to.row - from.row), BOX.gutter - 20);
    const y = fy + BOX.height / 2, down = ty + BOX.height / 2;
    return `M${x} ${y}C${out} ${y} ${out} ${down} ${end} ${down}`;
  }
  const x = fx + BOX.width, y = fy + BOX.height / 2, end = ty + BOX.height / 2, half = Math.max(40, (tx - x) / 2);
  return `M${x} ${y}C${x + half} ${y} ${tx - half} ${end} ${tx} ${end}`;
}
