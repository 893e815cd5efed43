// The panel of the map: what is drawn (heatmap.js), moved over with a pointer or keys, zoomed, read aloud and saved.

import { make, replace } from "./dom.js";
import { drawMap, layoutMap, rememberImage } from "./heatmap.js";
import { headLabel, strongest } from "./maps.js";
import { digitsOf, plural, show } from "./number.js";
import { makePanel, makeShares } from "./panel.js";
import { fitCanvas, readColors, savePng, saveSvg, shorten } from "./pen.js";
import { fileName, saveText, toCsv } from "./save.js";
import { makeShades } from "./shade.js";
import { scrollBox } from "./table.js";
import { isDark, watchTheme } from "./theme.js";

const CLOSEST = 40; // pixels of a cell beyond which zooming ends
const BAR = 15; // room for a scroll bar
const HINT =
  "Point at a cell to read it; a click or Enter holds it, Esc lets it go. " +
  "Arrows move, [ and ] change the layer, comma and full stop the head.";
const STRONGEST = 8; // places that are listed
const PAGE = 24; // rows and columns of numbers that are shown at a time

/** What a cell says, to be read or heard: "chat" to "cat": 0.83. */
export function describeCell(weights, row, column) {
  const { rowAxis, columnAxis, values, columns, exact } = weights;
  const from = row === null ? null : `${quoted(rowAxis.labels[row])}`;
  const to = column === null ? null : `${quoted(columnAxis.labels[column])}`;
  if (from === null && to === null) return "";
  if (from === null) return `to ${to}, ${columnAxis.noun} ${column}`;
  if (to === null) return `from ${from}, ${rowAxis.noun} ${row}`;
  const value = values[row * columns + column];
  return `${from} to ${to}: ${exact ? "" : "about "}${show(value, exact ? 4 : 2)}`;
}

function quoted(label) {
  return `“${label}”`;
}

export class MapView {
  #store;
  #canvas = make("canvas", { "aria-hidden": "true" });
  #cell = make("div", { class: "cell", role: "gridcell", tabindex: "0" });
  #row = make("div", { role: "row" }, this.#cell);
  #grid = make("div", { class: "grid", role: "grid" }, this.#row);
  #spacer = make("div", { class: "spacer" }, make("div", { class: "sticky" }, this.#canvas, this.#grid));
  #scroller = make("div", { class: "scroller" }, this.#spacer);
  #top = make("div", { class: "strongest" });
  #zooms;
  #zoom = 1;
  #layout = null;
  #width = 0;
  #look = null;
  #panel;
  #first = [0, 0]; // the row and column that the table of numbers begins with

  constructor(store, words) {
    this.#store = store;
    this.words = words; // what a file that is saved is called
    this.#zooms = ["−", "+"].map((sign, n) =>
      make(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": n ? "Larger cells" : "Smaller cells",
          onclick: () => this.zoom(n ? 1.5 : 1 / 1.5),
        },
        sign,
      ),
    );
    const saves = {
      CSV: () => this.#saveCsv(),
      PNG: () => savePng(this.#picture()),
      SVG: () => saveSvg(this.#picture()),
    };
    this.#panel = makePanel({
      title: "Map",
      saves,
      table: () => this.#table(),
      tools: [make("div", { class: "zooms" }, this.#zooms)],
    });
    this.element = this.#panel.element;
    this.element.classList.add("map");
    this.#panel.body.append(this.#scroller, this.#top);
    this.#listen();
    store.watch((values, changed) => this.#update(values, changed));
  }

  focus() {
    this.#cell.focus({ preventScroll: true });
  }

  /** Make cells larger or smaller; the cell that one looks at stays in sight. */
  zoom(factor) {
    const { weights } = this.#store.values;
    if (!weights) return;
    const base = layoutMap(weights, ...this.#room()).cell;
    this.#zoom = Math.min(Math.max(1, this.#zoom * factor), Math.max(1, CLOSEST / base));
    this.#arrange();
    this.#reveal();
    this.#draw();
  }

  #listen() {
    const { values } = this.#store;
    this.#scroller.addEventListener("pointermove", (event) => {
      if (event.pointerType !== "touch" && !values.locked) this.#store.set(this.#find(event));
    });
    this.#scroller.addEventListener("pointerleave", () => {
      if (!values.locked) this.#store.set({ row: null, column: null });
    });
    this.#scroller.addEventListener("click", (event) => {
      const found = this.#find(event);
      const same = values.locked && found.row === values.row && found.column === values.column;
      const nothing = found.row === null && found.column === null;
      this.#store.set(nothing ? found : { ...found, locked: !same });
      this.focus();
    });
    this.#scroller.addEventListener("scroll", () => this.#draw(), { passive: true });
    new ResizeObserver(() => {
      const width = this.#panel.body.clientWidth;
      if (width === this.#width) return; // only what stands below has grown
      this.#width = width;
      if (this.#arrange()) this.#draw();
    }).observe(this.#panel.body);
    this.#cell.addEventListener("focus", () => {
      const { row, column, moved } = values;
      if (row === null && column === null && this.#cell.matches(":focus-visible"))
        this.#store.set({ row: 0, column: 0, moved: moved + 1 });
    });
    watchTheme(() => this.#repaint());
  }

  /** The row and column under a pointer; beside the cells it is over a row's name or a column's. */
  #find(event) {
    const { weights } = this.#store.values;
    if (!weights || !this.#layout) return { row: null, column: null };
    const { left, top, cell } = this.#layout;
    const box = this.#canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const inside = (place, count) => (place >= 0 && place < count ? place : null);
    const row = y < top ? null : inside(Math.floor((y - top + this.#scroller.scrollTop) / cell), weights.rows);
    const column = x < left ? null : inside(Math.floor((x - left + this.#scroller.scrollLeft) / cell), weights.columns);
    if ((y >= top && row === null) || (x >= left && column === null)) return { row: null, column: null };
    return { row, column };
  }

  #update(values, changed) {
    if (!values.weights) return;
    if (changed.has("weights") || changed.has("scale")) this.#repaint();
    else if (changed.has("row") || changed.has("column") || changed.has("locked")) this.#draw();
    if (changed.has("moved")) this.#reveal();
    if (changed.has("weights") || (changed.has("locked") && values.locked)) this.#panel.refresh();
    this.#tell(values);
  }

  #repaint() {
    const { weights, scale } = this.#store.values;
    if (!weights) return;
    const shades = makeShades(isDark());
    this.#look = { colors: readColors(), shades, scale, image: rememberImage(weights, scale, shades) };
    this.#arrange();
    this.#draw();
  }

  #room() {
    const width = Math.max(160, this.#panel.body.clientWidth);
    // as high as the window has room for, but never so low that cells can't be told apart
    return [width, Math.min(Math.max(320, width), Math.max(460, innerHeight * 0.78), 900)];
  }

  #arrange() {
    const { weights } = this.#store.values;
    if (!weights) return false;
    this.#layout = layoutMap(weights, ...this.#room(), { zoom: this.#zoom });
    const { width, height, innerWidth, innerHeight: depth, cell } = this.#layout;
    const [across, down] = [innerWidth > width, depth > height].map((scrolls) => (scrolls ? BAR : 0));
    Object.assign(this.#scroller.style, { width: `${width + down}px`, height: `${height + across}px` });
    Object.assign(this.#spacer.style, { width: `${innerWidth}px`, height: `${depth}px` });
    this.#zooms[0].disabled = this.#zoom <= 1;
    this.#zooms[1].disabled = cell >= CLOSEST - 1;
    return true;
  }

  /** Scroll as far as needed to see the cell. */
  #reveal() {
    const { row, column } = this.#store.values;
    const { left, top, right, foot, cell, width, height } = this.#layout;
    const bring = (place, start, room) =>
      place * cell < start ? place * cell : Math.max(start, (place + 1) * cell - room);
    if (column !== null) this.#scroller.scrollLeft = bring(column, this.#scroller.scrollLeft, width - left - right);
    if (row !== null) this.#scroller.scrollTop = bring(row, this.#scroller.scrollTop, height - top - foot);
  }

  #draw() {
    const { weights, row, column, locked } = this.#store.values;
    if (!weights || !this.#layout) return;
    const at = { x: this.#scroller.scrollLeft, y: this.#scroller.scrollTop };
    const pen = fitCanvas(this.#canvas, this.#layout.width, this.#layout.height);
    drawMap(pen, weights, this.#layout, this.#look, at, { row, column, locked });
    const { left, top, cell } = this.#layout;
    const size = Math.max(cell, 4);
    Object.assign(this.#cell.style, {
      transform: `translate(${left + (column ?? 0) * cell - at.x}px, ${top + (row ?? 0) * cell - at.y}px)`,
      width: `${size}px`,
      height: `${size}px`,
    });
  }

  /** The one cell that can have the focus says which it is and what it holds. */
  #tell({ weights, row, column, locked }) {
    const { rowAxis, columnAxis } = weights;
    const name = headLabel(weights.map, weights.head);
    this.#grid.setAttribute(
      "aria-label",
      `Map of ${name}: ${plural(weights.rows, rowAxis.noun)} look at ${plural(weights.columns, columnAxis.noun)}`,
    );
    this.#grid.setAttribute("aria-rowcount", weights.rows);
    this.#grid.setAttribute("aria-colcount", weights.columns);
    this.#row.setAttribute("aria-rowindex", (row ?? 0) + 1);
    this.#cell.setAttribute("aria-colindex", (column ?? 0) + 1);
    const said = row === null && column === null ? describeCell(weights, 0, 0) : describeCell(weights, row, column);
    this.#cell.setAttribute("aria-label", `${said}${locked ? ", locked" : ""}`);
    replace(this.#top, this.#summary(weights, row, column));
  }

  /** Where a row looks most, or what looks most at a column. */
  #summary(weights, row, column) {
    if (row === null && column === null) return make("p", { class: "note" }, HINT);
    const [own, others] = row === null ? [weights.columnAxis, weights.rowAxis] : [weights.rowAxis, weights.columnAxis];
    const found = strongest(weights, row, column, STRONGEST).map(({ place, value }) => ({
      name: others.labels[place],
      share: value,
      lit: row !== null && place === column,
    }));
    const name = make("b", {}, make("bdi", {}, own.labels[row ?? column]));
    return [make("p", {}, name, row === null ? " is looked at by" : " looks at"), makeShares(found)];
  }

  #picture() {
    const { weights, row, column, locked } = this.#store.values;
    const least = 2 * Math.max(weights.rows, weights.columns);
    const layout = layoutMap(weights, Math.max(900, least + 200), Math.max(900, least + 200), { head: 28 });
    const title = `${this.words().join(" · ")} · ${headLabel(weights.map, weights.head)}`;
    const width = Math.max(layout.innerWidth, 320);
    const whole = { ...layout, width: layout.innerWidth, height: layout.innerHeight };
    const { colors } = this.#look;
    const draw = (pen) => {
      pen.text(10, 16, shorten(title, width - 20, 13, 600), { size: 13, weight: 600, fill: colors.ink });
      drawMap(
        pen,
        weights,
        whole,
        this.#look,
        { x: 0, y: 0 },
        locked ? { row, column, locked } : { row: null, column: null, locked },
      );
    };
    return { words: this.#fileWords(), width, height: layout.innerHeight, draw };
  }

  #fileWords() {
    const { weights } = this.#store.values;
    return ["map", ...this.words(), headLabel(weights.map, weights.head)];
  }

  #saveCsv() {
    const { weights } = this.#store.values;
    const { rows, columns, values, rowAxis, columnAxis, exact } = weights;
    const numbers = (row) =>
      Array.from(values.subarray(row * columns, (row + 1) * columns), (value) => digitsOf(value, exact));
    const lines = Array.from({ length: rows }, (_, row) => [rowAxis.texts[row], ...numbers(row)]);
    saveText(
      fileName(this.#fileWords(), "csv"),
      toCsv([[exact ? "" : "rounded", ...columnAxis.texts], ...lines]),
      "text/csv",
    );
  }

  /** A page of the numbers, around the cell that is held. */
  #table() {
    const { weights, row, column } = this.#store.values;
    const { rows, columns, values, rowAxis, columnAxis, exact } = weights;
    if (row !== null) this.#first[0] = Math.floor(row / PAGE) * PAGE;
    if (column !== null) this.#first[1] = Math.floor(column / PAGE) * PAGE;
    const [top, left] = this.#first.map((first, n) =>
      Math.min(first, Math.floor(((n ? columns : rows) - 1) / PAGE) * PAGE),
    );
    const [bottom, right] = [Math.min(rows, top + PAGE), Math.min(columns, left + PAGE)];
    const heads = columnAxis.labels
      .slice(left, right)
      .map((label) => make("th", { scope: "col", class: "number" }, make("bdi", {}, shorten(label, 110))));
    const lines = rowAxis.labels.slice(top, bottom).map((label, n) => {
      const numbers = Array.from(values.subarray((top + n) * columns + left, (top + n) * columns + right), (value) =>
        make("td", { class: "number" }, show(value, exact ? 6 : 2)),
      );
      return make("tr", {}, make("th", { scope: "row" }, make("bdi", {}, shorten(label, 160))), numbers);
    });
    const seen = `Rows ${top} to ${bottom - 1} of ${rows}, columns ${left} to ${right - 1} of ${columns}`;
    const caption = exact ? seen : `${seen}, rounded`;
    const table = make(
      "table",
      {},
      make("caption", {}, caption),
      make("thead", {}, make("tr", {}, make("td", {}), heads)),
      make("tbody", {}, lines),
    );
    return [this.#pager(rows, columns, top, left), scrollBox("Numbers of the map", table)];
  }

  #pager(rows, columns, top, left) {
    if (rows <= PAGE && columns <= PAGE) return null;
    const turn = (label, row, column) => {
      const [first, second] = [top + row * PAGE, left + column * PAGE];
      const disabled = first < 0 || first >= rows || second < 0 || second >= columns;
      const go = () => {
        this.#first = [first, second];
        this.#store.set({ row: null, column: null, locked: false });
        this.#panel.refresh();
      };
      return make("button", { type: "button", disabled, onclick: go }, label);
    };
    return make(
      "div",
      { class: "pager" },
      turn("↑ rows", -1, 0),
      turn("↓ rows", 1, 0),
      turn("← columns", 0, -1),
      turn("→ columns", 0, 1),
    );
  }
}
