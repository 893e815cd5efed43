// Lines from what looks to what is looked at: the more weight, the thicker. For up to 64 tokens a side.

import { make, replace } from "./dom.js";
import { headLabel } from "./maps.js";
import { digitsOf, percent } from "./number.js";
import { makePanel } from "./panel.js";
import { fitCanvas, measure, readColors, savePng, saveSvg, shorten } from "./pen.js";
import { fileName, saveText, toCsv } from "./save.js";
import { makeTable, scrollBox } from "./table.js";
import { watchTheme } from "./theme.js";

const LINES_MOST = 64;
const FAINT = 0.03; // of the largest weight: what is less isn't drawn
const LISTED = 200; // rows of the table
const HEAD = 24;

export class Lines {
  #store;
  #canvas = make("canvas", { role: "img" });
  #note = make("p", { class: "note" });
  #panel;
  #layout = null;

  constructor(store, words) {
    this.#store = store;
    this.words = words;
    const saves = {
      CSV: () => this.#saveCsv(),
      PNG: () => this.#fits() && savePng(this.#picture()),
      SVG: () => this.#fits() && saveSvg(this.#picture()),
    };
    this.#panel = makePanel({ title: "Lines", saves, table: () => this.#table() });
    this.element = this.#panel.element;
    this.element.classList.add("lines");
    this.#panel.body.append(this.#note, this.#canvas);
    this.#canvas.addEventListener("pointermove", (event) => {
      if (event.pointerType !== "touch" && !store.values.locked) store.set(this.#find(event));
    });
    this.#canvas.addEventListener("pointerleave", () => !store.values.locked && store.set({ row: null, column: null }));
    this.#canvas.addEventListener("click", (event) => this.#lock(this.#find(event)));
    new ResizeObserver(() => this.#draw()).observe(this.#panel.body);
    watchTheme(() => this.#draw());
    store.watch((values, changed) => {
      if (["weights", "row", "column", "locked"].some((name) => changed.has(name))) this.#draw();
      if (changed.has("weights") && values.weights) this.#panel.refresh();
    });
  }

  #fits() {
    const { weights } = this.#store.values;
    return weights && weights.rows <= LINES_MOST && weights.columns <= LINES_MOST;
  }

  #lock({ row, column }) {
    const { values } = this.#store;
    const same = values.locked && values.row === row && values.column === column;
    this.#store.set(row === null && column === null ? { row, column, locked: false } : { row, column, locked: !same });
  }

  /** The token under a pointer: at the left what looks, at the right what is looked at. */
  #find(event) {
    const { weights } = this.#store.values;
    if (!this.#fits()) return { row: null, column: null };
    const { width, pitch } = this.#layout;
    const place = Math.floor((event.offsetY - HEAD) / pitch);
    const row = event.offsetX < width / 2;
    if (place < 0 || place >= (row ? weights.rows : weights.columns)) return { row: null, column: null };
    return row ? { row: place, column: null } : { row: null, column: place };
  }

  #draw() {
    const { weights, row, column } = this.#store.values;
    if (!weights) return;
    const fits = this.#fits();
    this.#canvas.hidden = !fits;
    this.#note.hidden = fits;
    if (!fits) {
      replace(
        this.#note,
        `Lines are drawn for up to ${LINES_MOST} tokens a side; this map has ${weights.rows} × ${weights.columns}.`,
      );
      return;
    }
    this.#layout = layoutLines(weights, Math.min(760, Math.max(160, this.#panel.body.clientWidth)));
    const pen = fitCanvas(this.#canvas, this.#layout.width, this.#layout.height);
    drawLines(pen, weights, this.#layout, readColors(), { row, column });
    this.#canvas.setAttribute(
      "aria-label",
      `Lines of ${headLabel(weights.map, weights.head)}; the table of numbers below says the same`,
    );
  }

  #picture() {
    const { weights, row, column, locked } = this.#store.values;
    const layout = layoutLines(weights, 640);
    const focus = locked ? { row, column } : { row: null, column: null };
    return { words: this.#fileWords(), ...layout, draw: (pen) => drawLines(pen, weights, layout, readColors(), focus) };
  }

  #fileWords() {
    const { weights } = this.#store.values;
    return ["lines", ...this.words(), headLabel(weights.map, weights.head)];
  }

  /** All pairs from the largest weight on. */
  #pairs() {
    const { rows, columns, values, rowAxis, columnAxis, exact } = this.#store.values.weights;
    const found = [];
    for (let row = 0; row < rows; row += 1) {
      for (let column = 0; column < columns; column += 1)
        found.push([
          row,
          rowAxis.texts[row],
          column,
          columnAxis.texts[column],
          digitsOf(values[row * columns + column], exact),
        ]);
    }
    return found.sort((a, b) => b[4] - a[4]);
  }

  #table() {
    const pairs = this.#pairs();
    const note =
      pairs.length > LISTED
        ? make(
            "p",
            { class: "note" },
            `The ${LISTED} strongest of ${pairs.length.toLocaleString("en")}; the CSV has all.`,
          )
        : null;
    const columns = ["row", "from", "column", "to", "weight"];
    const digits = this.#store.values.weights.exact ? 6 : 2;
    return [
      note,
      scrollBox(
        "Numbers of lines",
        makeTable({ columns, rows: pairs.slice(0, LISTED), caption: "Lines by weight", digits }),
      ),
    ];
  }

  #saveCsv() {
    saveText(
      fileName(this.#fileWords(), "csv"),
      toCsv([
        ["row", "from", "column", "to", this.#store.values.weights.exact ? "weight" : "rounded weight"],
        ...this.#pairs(),
      ]),
      "text/csv",
    );
  }
}

function layoutLines({ rows, columns, rowAxis, columnAxis }, width) {
  const count = Math.max(rows, columns);
  const pitch = count > 40 ? 14 : count > 20 ? 18 : 22;
  const size = pitch > 16 ? 13 : 11;
  const room = (labels) => Math.min(Math.max(34, ...labels.map((label) => measure(label, size, 600))) + 4, 0.3 * width);
  const [from, to] = [room(rowAxis.labels), room(columnAxis.labels)];
  const gap = Math.min(400, width - from - to - 76);
  return {
    width: from + to + gap + 76,
    height: HEAD + count * pitch + 8,
    pitch,
    size,
    left: from + 8,
    right: from + 8 + gap,
    from,
    to,
  };
}

function drawLines(pen, weights, layout, colors, { row, column }) {
  const { rows, columns, values, top } = weights;
  const y = (place) => HEAD + (place + 0.5) * layout.pitch;
  const chosen = (r, c) => (row === null ? column === null || c === column : r === row);
  pen.text(layout.left, 9, "looks", { size: 11, align: "right", fill: colors.muted });
  pen.text(layout.right + 6, 9, "is looked at", { size: 11, fill: colors.muted });
  for (const lit of [false, true]) {
    for (let r = 0; r < rows; r += 1) {
      for (let c = 0; c < columns; c += 1) {
        const share = top > 0 ? Math.abs(values[r * columns + c]) / top : 0;
        const pointed = lit && (row !== null || column !== null);
        if (!(share >= (pointed ? FAINT / 6 : FAINT)) || chosen(r, c) !== lit) continue;
        const style = {
          stroke: lit ? colors.accent : colors.muted,
          thick: 0.4 + 3.6 * share,
          opacity: lit ? 0.12 + 0.8 * share : 0.1 * share,
        };
        pen.curve([layout.left + 4, y(r)], [layout.right, y(c)], style);
      }
    }
  }
  drawEnds(pen, weights, layout, colors, { row, column }, y);
}

/** The tokens at both ends; where one is pointed at, the others say what they have to do with it. */
function drawEnds(
  pen,
  { rows, columns, rowAxis, columnAxis, values },
  { left, right, from, to, size, pitch },
  colors,
  { row, column },
  y,
) {
  const style = (lit) => ({ size, weight: lit ? 700 : 400, fill: lit ? colors.accent : colors.ink });
  for (let r = 0; r < rows; r += 1) {
    const value = column === null ? null : values[r * columns + column];
    const lit = r === row || (row === null && value >= 0.1);
    pen.text(left, y(r), shorten(rowAxis.labels[r], from, size, 600), { ...style(lit), align: "right" });
  }
  for (let c = 0; c < columns; c += 1) {
    const value = row === null ? null : values[row * columns + c];
    const lit = c === column || (column === null && value >= 0.1);
    if (value > 0)
      pen.rect(right + 3, y(c) - pitch / 2 + 1, Math.max(1, (to + 56) * value), pitch - 2, {
        fill: colors.accent,
        opacity: 0.16,
        radius: 2,
      });
    pen.text(right + 6, y(c), shorten(columnAxis.labels[c], to, size, 600), style(lit));
    if (value >= 0.005)
      pen.text(right + 62 + to, y(c), percent(value), { size: 11, align: "right", fill: colors.muted });
  }
}
