// The drawing of a map: rows look at columns, a cell's shade is its weight. Where there is room, the number stands in
// the cell; where there isn't, a dot marks the strongest cell of a row. So no shade has to be told by color alone.

import { show } from "./number.js";
import { measure, shorten } from "./pen.js";
import { paint, shadeOf } from "./shade.js";

const CELL_MOST = 52; // of a cell, in pixels
const GAPS = 9; // from this size on, cells stand apart
const NUMBERS = 27; // from this size on, there is room for a number
const DOTS = 8;
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
  const { left, top, width, height, cell } = layout;
  const [across, down] = [width - left, height - top - FOOT];
  const seen = {
    columns: range(at.x, across, cell, weights.columns),
    rows: range(at.y, down, cell, weights.rows),
  };
  const place = { x: (column) => left + column * cell - at.x, y: (row) => top + row * cell - at.y };
  pen.clip(left - 1, top - 1, across, down + 1, () => {
    // what stands between the cells: where they are white, one still sees where the map ends
    pen.rect(place.x(0) - 1, place.y(0) - 1, weights.columns * cell + 1, weights.rows * cell + 1, {
      fill: look.colors.line,
    });
    drawCells(pen, weights, layout, look, seen, place);
    drawFocus(pen, weights, layout, look, place, focus);
  });
  drawRowLabels(pen, weights, layout, look, seen, place, focus);
  drawColumnLabels(pen, weights, layout, look, seen, place, focus);
  drawLegend(pen, weights, layout, look);
}

function range(start, room, cell, count) {
  return [Math.max(0, Math.floor(start / cell)), Math.min(count, Math.ceil((start + room) / cell))];
}

function drawCells(pen, weights, { cell }, look, seen, place) {
  const [[row0, row1], [column0, column1]] = [seen.rows, seen.columns];
  if (cell < GAPS || (row1 - row0) * (column1 - column0) > 8000) {
    const image = look.image(cell);
    const [wide, high] = [image.width / weights.columns, image.height / weights.rows];
    pen.image(image, place.x(0), place.y(0), weights.columns * cell, weights.rows * cell, [
      0,
      0,
      weights.columns * wide,
      weights.rows * high,
    ]);
    return;
  }
  for (let row = row0; row < row1; row += 1) {
    const best = strongestOf(weights, row);
    for (let column = column0; column < column1; column += 1) {
      drawCell(pen, weights, cell, look, place.x(column), place.y(row), row, column, column === best);
    }
  }
}

function drawCell(pen, { values, columns, top }, cell, look, x, y, row, column, best) {
  const value = values[row * columns + column];
  const shade = shadeOf(value, top, look.scale);
  const edge = cell - 1;
  pen.rect(x, y, edge, edge, { fill: shade < 0 ? look.shades.lost : look.shades.css[shade] });
  if (shade < 0)
    pen.text(x + edge / 2, y + edge / 2, "×", { size: Math.min(12, cell), align: "center", fill: look.colors.ink });
  else if (cell >= NUMBERS) {
    const text = (100 * value).toFixed(0);
    if (text !== "0" && text !== "-0")
      pen.text(x + edge / 2, y + edge / 2, text.replace("-", "−"), {
        size: 11,
        align: "center",
        fill: look.shades.inks[shade],
      });
  } else if (best && cell >= DOTS) {
    const dot = Math.max(2, Math.round(cell / 6));
    pen.rect(x + (edge - dot) / 2, y + (edge - dot) / 2, dot, dot, { fill: look.shades.inks[shade], radius: dot / 2 });
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

function drawFocus(pen, { rows, columns }, { cell }, { colors }, place, { row, column, locked }) {
  const edge = Math.max(cell - (cell >= GAPS ? 1 : 0), 1);
  const band = { stroke: colors.accent, thick: 1, opacity: 0.75 };
  if (row !== null) pen.rect(place.x(0) - 0.5, place.y(row) - 0.5, columns * cell, edge + 1, band);
  if (column !== null) pen.rect(place.x(column) - 0.5, place.y(0) - 0.5, edge + 1, rows * cell, band);
  if (row === null || column === null) return;
  const reach = Math.max(0, (6 - cell) / 2); // a cell of a pixel is still found
  const frame = [place.x(column) - 1 - reach, place.y(row) - 1 - reach, edge + 2 + 2 * reach, edge + 2 + 2 * reach];
  pen.rect(...frame, { stroke: colors.panel, thick: locked ? 5 : 4 });
  pen.rect(...frame, { stroke: colors.accent, thick: locked ? 3 : 2 });
}

function drawRowLabels(
  pen,
  { rowAxis },
  { left, top, side, cell, size, step, width, height },
  { colors },
  seen,
  place,
  focus,
) {
  const write = (row, style) =>
    pen.text(left - 7, place.y(row) + cell / 2, shorten(rowAxis.labels[row], side, size, style.weight), {
      size,
      align: "right",
      ...style,
    });
  pen.clip(0, top - size / 2, left, height - top - FOOT + size, () => {
    for (let row = Math.ceil(seen.rows[0] / step) * step; row < seen.rows[1]; row += step) {
      if (focus.row === null || Math.abs(row - focus.row) >= step) write(row, { fill: colors.ink, weight: 400 });
    }
    if (focus.row !== null) write(focus.row, { fill: colors.accent, weight: 700 });
  });
}

function drawColumnLabels(
  pen,
  { columnAxis },
  { left, top, above, cell, size, step, width, slanted, head },
  { colors },
  seen,
  place,
  focus,
) {
  const angle = slanted ? -45 : -90;
  const write = (column, style) => {
    const text = shorten(columnAxis.labels[column], above, size, style.weight);
    pen.text(place.x(column) + cell / 2, top - 6, text, { size, angle, ...style });
  };
  pen.clip(left - size, head, width - left + size, top - head, () => {
    for (let column = Math.ceil(seen.columns[0] / step) * step; column < seen.columns[1]; column += step) {
      if (focus.column === null || Math.abs(column - focus.column) >= step)
        write(column, { fill: colors.ink, weight: 400 });
    }
    if (focus.column !== null) write(focus.column, { fill: colors.accent, weight: 700 });
  });
}

/** A strip of shades with the weights that they stand for. */
function drawLegend(pen, { top }, { left, width, height, cell }, { colors, shades, scale }) {
  const wide = Math.min(180, width - left - 12);
  const [x, y] = [left, height - 26];
  const parts = 60;
  for (let n = 0; n < parts; n += 1) {
    pen.rect(x + (n * wide) / parts, y, wide / parts + 0.5, 7, {
      fill: shades.css[Math.round((255 * n) / (parts - 1))],
    });
  }
  pen.rect(x - 0.5, y - 0.5, wide + 1, 8, { stroke: colors.line });
  const limit = scale === "whole" ? Math.max(1, top) : top;
  for (const share of wide < 90 ? [0, 1] : [0, 0.5, 1]) {
    const value = limit * (scale === "root" ? share * share : share);
    const align = share === 0 ? "left" : share === 1 ? "right" : "center";
    pen.text(x + share * wide, y + 16, show(value, 2), { size: 11, align, fill: colors.muted });
  }
  if (width - left - wide > 130)
    pen.text(x + wide + 10, y + 4, cell >= NUMBERS ? "weight; in cells, %" : "weight", {
      size: 11,
      fill: colors.muted,
    });
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
