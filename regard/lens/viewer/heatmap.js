// The drawing of a map: rows look at columns, a cell's shade is its weight. Where there is room, the number stands in
// the cell; where there isn't, a dot marks the strongest cell of a row. So no shade has to be told by color alone.

import { show } from "./number.js";
import { measure, shorten } from "./pen.js";
import { paint, shadeOf, weightOf } from "./shade.js";

const CELL_MOST = 52; // of a cell, in pixels
const GAPS = 9; // from this size on, cells stand apart
const NUMBERS = 21; // from this size on, there is room for a number
const DOTS = 8; // from this size on, for a dot
const SINGLE = 8000; // cells that are drawn one by one
const SLANT = 17; // from this width on, the words above stand aslant, below it upright
const FOOT = 40; // the legend's place
const MEASURED = 400; // labels that are measured to find the room for all

/** Where everything stands in so much room: labels at the left and above, cells, the legend below. */
export function layoutMap(weights, width, height, { zoom = 1, head = 0 } = {}) {
  const { rowAxis, columnAxis } = weights;
  const side = Math.min(widest(rowAxis.labels), 0.28 * width, 150);
  const above = Math.min(widest(columnAxis.labels), 0.3 * width, 130);
  const left = side + 14;
  let right = 12;
  let fit = (width - left - right) / columnAxis.size;
  const slanted = Math.min(fit, CELL_MOST) >= SLANT;
  if (slanted) {
    right = Math.max(12, overhang(columnAxis.labels, above, Math.min(fit, CELL_MOST)));
    fit = (width - left - right) / columnAxis.size;
  }
  const top = head + (slanted ? 0.71 * above + 16 : above + 12);
  const most = (height - top - FOOT) / rowAxis.size;
  const cell = snap(Math.min(CELL_MOST, fit, Math.max(most, 0.25)) * zoom);
  const [inner, depth] = [columnAxis.size * cell, rowAxis.size * cell];
  const size = cell >= 15 ? 12 : cell >= 13 ? 11 : cell >= 10 && cell < 11 ? 9 : 10;
  return {
    left,
    top,
    right,
    cell,
    side,
    above,
    slanted,
    size,
    head,
    foot: FOOT,
    width: Math.max(120, Math.min(width, left + inner + right)), // what is seen at a time
    height: Math.min(Math.max(height, top + FOOT + 40), top + depth + FOOT),
    innerWidth: left + inner + right, // all there is to scroll to
    innerHeight: top + depth + FOOT,
    step: Math.max(1, Math.ceil((size + 1) / cell)), // every so many labels are written
  };
}

function snap(cell) {
  return cell >= 3 ? Math.floor(cell) : cell;
}

function widest(labels) {
  const step = Math.max(1, Math.floor(labels.length / MEASURED));
  let found = 8;
  for (let n = 0; n < labels.length; n += step) found = Math.max(found, measure(labels[n], 12));
  return found;
}

/** How far the last labels above reach beyond the last column. */
function overhang(labels, above, cell) {
  return Math.max(
    ...labels.slice(-8).map((label, n, last) => {
      const after = (last.length - n - 0.5) * cell;
      return 0.71 * Math.min(measure(label, 12), above) + 8 - after;
    }),
  );
}

/** Draw a map. look: { colors, shades, scale, image }, at: { x, y } scrolled to, focus: { row, column, locked }. */
export function drawMap(pen, weights, layout, look, at, focus) {
  new MapDrawing(pen, weights, layout, look, at, focus).draw();
}

class MapDrawing {
  constructor(pen, weights, layout, look, at, focus) {
    Object.assign(this, { pen, weights, layout, look, at, focus });
    this.room = { x: layout.width - layout.left, y: layout.height - layout.top - FOOT }; // of the cells
    this.seen = {
      columns: this.range(at.x, this.room.x, weights.columns),
      rows: this.range(at.y, this.room.y, weights.rows),
    };
  }

  /** The first row or column that is seen, and one past the last. */
  range(start, room, count) {
    const { cell } = this.layout;
    return [Math.max(0, Math.floor(start / cell)), Math.min(count, Math.ceil((start + room) / cell))];
  }

  x(column) {
    return this.layout.left + column * this.layout.cell - this.at.x;
  }

  y(row) {
    return this.layout.top + row * this.layout.cell - this.at.y;
  }

  draw() {
    const { left, top } = this.layout;
    this.pen.clip(left - 1, top - 1, this.room.x, this.room.y + 1, () => {
      this.drawCells();
      this.drawFocus();
    });
    this.drawRowLabels();
    this.drawColumnLabels();
    this.drawLegend();
  }

  drawCells() {
    const { pen, weights, look, seen } = this;
    const { cell } = this.layout;
    const [across, down] = [weights.columns * cell, weights.rows * cell];
    // what stands between the cells: where they are white, one still sees where the map ends
    pen.rect(this.x(0) - 1, this.y(0) - 1, across + 1, down + 1, { fill: look.colors.grid });
    if (cell < GAPS || (seen.rows[1] - seen.rows[0]) * (seen.columns[1] - seen.columns[0]) > SINGLE) {
      pen.image(look.image(cell), this.x(0), this.y(0), across, down);
      return;
    }
    for (let row = seen.rows[0]; row < seen.rows[1]; row += 1) {
      const best = strongestOf(weights, row);
      for (let column = seen.columns[0]; column < seen.columns[1]; column += 1)
        this.drawCell(row, column, column === best);
    }
  }

  drawCell(row, column, best) {
    const { pen, weights, look } = this;
    const { cell } = this.layout;
    const value = weights.values[row * weights.columns + column];
    const shade = shadeOf(value, weights.top, look.scale);
    const [x, y, edge] = [this.x(column), this.y(row), cell - 1];
    pen.rect(x, y, edge, edge, { fill: shade < 0 ? look.shades.lost : look.shades.css[shade] });
    const write = (text, size, fill) => pen.text(x + edge / 2, y + edge / 2, text, { size, align: "center", fill });
    if (shade < 0) write("×", Math.min(12, cell), look.colors.ink);
    else if (cell >= NUMBERS) {
      const text = (100 * value).toFixed(0);
      if (Number(text) !== 0) write(text.replace("-", "−"), cell >= 27 ? 11 : 10, look.shades.inks[shade]);
    } else if (best && cell >= DOTS) {
      const dot = Math.max(2, Math.round(cell / 6));
      const corner = (edge - dot) / 2;
      pen.rect(x + corner, y + corner, dot, dot, { fill: look.shades.inks[shade], radius: dot / 2 });
    }
  }

  drawFocus() {
    const { pen, weights, focus } = this;
    const { colors } = this.look;
    const { cell } = this.layout;
    const edge = Math.max(cell - (cell >= GAPS ? 1 : 0), 1);
    const [x, y] = [this.x(focus.column ?? 0), this.y(focus.row ?? 0)];
    const band = { stroke: colors.accent, thick: 1, opacity: 0.75 };
    if (focus.row !== null) pen.rect(this.x(0) - 0.5, y - 0.5, weights.columns * cell, edge + 1, band);
    if (focus.column !== null) pen.rect(x - 0.5, this.y(0) - 0.5, edge + 1, weights.rows * cell, band);
    if (focus.row === null || focus.column === null) return;
    const reach = 1 + Math.max(0, (6 - cell) / 2); // a cell of a pixel is still found
    const frame = [x - reach, y - reach, edge + 2 * reach, edge + 2 * reach];
    pen.rect(...frame, { stroke: colors.panel, thick: focus.locked ? 5 : 4 });
    pen.rect(...frame, { stroke: colors.accent, thick: focus.locked ? 3 : 2 });
  }

  drawRowLabels() {
    const { left, top, side, cell, size, height } = this.layout;
    this.pen.clip(0, top - size / 2, left, height - top - FOOT + size, () =>
      this.drawLabels(this.seen.rows, this.focus.row, (row, style) => {
        const text = shorten(this.weights.rowAxis.labels[row], side, size, style.weight);
        this.pen.text(left - 7, this.y(row) + cell / 2, text, { size, align: "right", ...style });
      }),
    );
  }

  drawColumnLabels() {
    const { left, top, above, cell, size, width, slanted, head } = this.layout;
    this.pen.clip(left - size, head, width - left + size, top - head, () =>
      this.drawLabels(this.seen.columns, this.focus.column, (column, style) => {
        const text = shorten(this.weights.columnAxis.labels[column], above, size, style.weight);
        this.pen.text(this.x(column) + cell / 2, top - 6, text, { size, angle: slanted ? -45 : -90, ...style });
      }),
    );
  }

  /** Every so many labels, as far as there is room, and always that of the focus: its neighbours make room. */
  drawLabels([first, end], chosen, write) {
    const { colors } = this.look;
    const { step } = this.layout;
    for (let place = Math.ceil(first / step) * step; place < end; place += step) {
      if (chosen === null || Math.abs(place - chosen) >= step) write(place, { fill: colors.ink, weight: 400 });
    }
    if (chosen !== null) write(chosen, { fill: colors.accent, weight: 700 });
  }

  /** A strip of shades with the weights that they stand for. */
  drawLegend() {
    const { pen, look } = this;
    const { left, width, height, cell } = this.layout;
    const wide = Math.min(180, width - left - 12);
    const [x, y, parts] = [left, height - 26, 60];
    for (let n = 0; n < parts; n += 1) {
      const fill = look.shades.css[Math.round((255 * n) / (parts - 1))];
      pen.rect(x + (n * wide) / parts, y, wide / parts + 0.5, 7, { fill });
    }
    pen.rect(x - 0.5, y - 0.5, wide + 1, 8, { stroke: look.colors.line });
    const style = { size: 11, fill: look.colors.muted };
    for (const share of wide < 90 ? [0, 1] : [0, 0.5, 1]) {
      const value = weightOf(share, this.weights.top, look.scale);
      pen.text(x + share * wide, y + 16, show(value, 2), { ...style, align: ["left", "center", "right"][2 * share] });
    }
    const unit = cell >= NUMBERS ? "weight; in cells, %" : "weight";
    if (width - left - wide > 130) pen.text(x + wide + 10, y + 4, unit, style);
  }
}

function strongestOf({ values, columns }, row) {
  let [best, most] = [-1, 0];
  for (let column = 0; column < columns; column += 1) {
    const size = Math.abs(values[row * columns + column]);
    if (size > most) [best, most] = [column, size];
  }
  return best;
}

/** The map as an image for small cells: remembered, since scrolling and hovering draw it again and again. */
export function rememberImage(weights, scale, shades) {
  const kept = new Map();
  return (cell) => {
    const sharp = cell * (devicePixelRatio || 1);
    const most = sharp >= 1 ? Infinity : Math.max(1, Math.round(Math.max(weights.rows, weights.columns) * sharp));
    if (!kept.has(most)) kept.set(most, paint(weights, scale, shades, most));
    return kept.get(most);
  };
}
