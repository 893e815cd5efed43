// The panel of the picture: what one word, or one place, looks at stays bright, the rest goes dark. Pointing at a word
// shows its places; pointing at a place shows its words. It shares row and column with the map.

import { make, replace } from "./dom.js";
import { headLabel } from "./maps.js";
import { percent, show } from "./number.js";
import { makePanel, markOption, rove } from "./panel.js";
import { fitCanvas, readColors, savePng, saveSvg, shorten } from "./pen.js";
import { shadeOf } from "./shade.js";
import { watchTheme } from "./theme.js";

const PICTURE_MOST = 440; // pixels of its longer side on the screen
const NIGHT = 0.78; // how dark a place without weight becomes
const POINT = "Point at a word to see its places, at a place to see its words; a click holds it.";
const POINT_PLACES = "Point at a place to see what it looks at; a click holds it.";
const ELSEWHERE = "These maps don't look at the picture.";

/** The picture of a look, or null: where any of its axes has one. */
export function findPicture({ axes }) {
  return Object.values(axes).find((axis) => axis.picture)?.picture ?? null;
}

/** The place along a side at a share of its length; places stand by an offset further on than equal parts would. */
function findPlace(share, places, offset = 0) {
  return Math.min(Math.max(Math.floor(share * places - offset), 0), places - 1);
}

/** Where along a side a place begins, in pixels; the first and the last reach to the ends. */
function findEdge(edge, places, offset, length) {
  if (edge === 0 || edge === places) return edge === 0 ? 0 : length;
  return Math.round(((edge + (offset ?? 0)) * length) / places);
}

export class PictureView {
  #store;
  #picture;
  #pixels = null; // a canvas as large as the picture
  #canvas = make("canvas", { role: "img" });
  #list = make("div", { class: "lookers", role: "listbox", "aria-label": "What looks at the picture" });
  #note = make("p", { class: "note" });
  #panel;
  #listed = null; // the axis whose labels the list has

  constructor(store, picture, words) {
    this.#store = store;
    this.#picture = picture;
    this.words = words;
    const saves = { PNG: () => savePng(this.#drawing()), SVG: () => saveSvg(this.#drawing()) };
    this.#panel = makePanel({ title: "Picture", saves });
    this.element = this.#panel.element;
    this.element.classList.add("picture");
    this.#panel.body.append(this.#canvas, make("div", { class: "beside" }, this.#list, this.#note));
    this.#listen();
    this.#load();
  }

  async #load() {
    const image = new Image();
    image.src = this.#picture.image;
    await image.decode();
    this.#pixels = document.createElement("canvas");
    Object.assign(this.#pixels, { width: image.naturalWidth, height: image.naturalHeight });
    this.#pixels.getContext("2d").drawImage(image, 0, 0);
    this.#draw();
  }

  #listen() {
    const { values } = this.#store;
    this.#canvas.addEventListener("pointermove", (event) => {
      if (event.pointerType !== "touch" && !values.locked) this.#store.set(this.#find(event));
    });
    this.#canvas.addEventListener("pointerleave", () => {
      if (!values.locked) this.#store.set({ row: null, column: null });
    });
    this.#canvas.addEventListener("click", (event) => this.#hold(this.#find(event)));
    this.#list.addEventListener("pointerover", (event) => {
      const option = event.target.closest("[role=option]");
      if (option && !values.locked) this.#store.set({ row: Number(option.dataset.row), column: null });
    });
    this.#list.addEventListener("pointerleave", () => !values.locked && this.#store.set({ row: null, column: null }));
    this.#list.addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) this.#hold({ row: Number(option.dataset.row), column: null });
    });
    rove(
      this.#list,
      () => 1,
      (option) => this.#store.set({ row: Number(option.dataset.row), column: null, moved: values.moved + 1 }),
    );
    new ResizeObserver(() => this.#draw()).observe(this.#panel.body);
    watchTheme(() => this.#draw());
    this.#store.watch((_, changed) => {
      if (["weights", "row", "column", "locked", "scale"].some((name) => changed.has(name))) this.#draw();
    });
  }

  #hold({ row, column }) {
    const { values } = this.#store;
    const same = values.locked && values.row === row && values.column === column;
    this.#store.set(row === null && column === null ? { row, column, locked: false } : { row, column, locked: !same });
  }

  /** The place under a pointer: what looks, where places look at each other, and else what is looked at. */
  #find(event) {
    const nothing = { row: null, column: null };
    const { weights } = this.#store.values;
    if (!weights?.columnAxis.picture) return nothing;
    const { grid } = this.#picture;
    const box = this.#canvas.getBoundingClientRect();
    const [x, y] = [(event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height];
    if (x < 0 || y < 0 || x >= 1 || y >= 1) return nothing;
    const [across, down] = [findPlace(x, grid.width, grid.offset), findPlace(y, grid.height, grid.offset)];
    const place = grid.first + down * grid.width + across;
    return weights.rowAxis.picture ? { row: place, column: null } : { row: null, column: place };
  }

  #size() {
    const { height, width } = this.#picture;
    const room = Math.min(PICTURE_MOST, Math.max(160, this.#panel.body.clientWidth));
    const scale = Math.min(room / width, PICTURE_MOST / height);
    return { width: Math.round(width * scale), height: Math.round(height * scale) };
  }

  #draw() {
    const { weights } = this.#store.values;
    if (!weights || !this.#pixels) return;
    const { width, height } = this.#size();
    this.#paint(fitCanvas(this.#canvas, width, height), width, height);
    this.#tell();
  }

  #paint(pen, width, height) {
    pen.image(this.#pixels, 0, 0, width, height);
    const { weights, row, column, scale } = this.#store.values;
    if (!weights.columnAxis.picture) return;
    const { grid } = this.#picture;
    const colors = readColors();
    const cell = (place) => {
      const [x, y] = [(place - grid.first) % grid.width, Math.floor((place - grid.first) / grid.width)];
      const [left, right] = [x, x + 1].map((edge) => findEdge(edge, grid.width, grid.offset, width));
      const [top, bottom] = [y, y + 1].map((edge) => findEdge(edge, grid.height, grid.offset, height));
      return [left, top, right - left, bottom - top];
    };
    if (row !== null) {
      const line = weights.values.subarray(row * weights.columns, (row + 1) * weights.columns);
      const most = line.subarray(grid.first).reduce((a, b) => Math.max(a, b), 0);
      for (let place = grid.first; place < weights.columns; place += 1) {
        const shade = Math.max(0, shadeOf(line[place], most, scale)) / 255;
        pen.rect(...cell(place), { fill: "#000000", opacity: NIGHT * (1 - shade) });
      }
    }
    for (const place of [column, weights.rowAxis.picture ? row : null]) {
      if (place === null || place < grid.first) continue;
      pen.rect(...cell(place), { stroke: "#ffffff", thick: 4 });
      pen.rect(...cell(place), { stroke: colors.accent, thick: 2 });
    }
  }

  /** The list of what looks, shaded by how much it looks at the place that is pointed at. */
  #tell() {
    const { weights, row, column } = this.#store.values;
    const { rowAxis, columnAxis, values, columns, map, head } = weights;
    const seen = Boolean(columnAxis.picture);
    const shown = seen ? (rowAxis.picture ? this.#picture.grid.first : rowAxis.size) : 0;
    if (this.#listed !== rowAxis || this.#list.childElementCount !== shown) this.#fill(rowAxis, shown);
    const options = [...this.#list.children];
    const top = column === null ? 0 : options.reduce((most, _, n) => Math.max(most, values[n * columns + column]), 0);
    options.forEach((option, n) => {
      const value = column === null ? 0 : values[n * columns + column];
      option.style.setProperty("--share", top > 0 ? String(value / top) : "0");
      option.title = column === null ? "" : show(value, 3);
    });
    markOption(this.#list, options[row] ?? null);
    this.#list.hidden = !shown;
    const share = row === null || !seen ? null : this.#describeRow(weights, row);
    replace(this.#note, seen ? (share ?? (rowAxis.picture ? POINT_PLACES : POINT)) : ELSEWHERE);
    const what = row === null ? "" : `, ${rowAxis.labels[row]}`;
    const name = `The picture under ${headLabel(map, head)}${what}; the map has the numbers`;
    this.#canvas.setAttribute("aria-label", name);
  }

  #fill(axis, count) {
    this.#listed = axis;
    const options = axis.labels
      .slice(0, count)
      .map((label, n) =>
        make("div", { role: "option", "data-row": n, "aria-selected": "false" }, make("bdi", {}, shorten(label, 160))),
      );
    replace(this.#list, options);
    markOption(this.#list, null);
  }

  /** Where a row looks most, and how much of it stays before the picture. */
  #describeRow({ rowAxis, columnAxis, values, columns }, row) {
    const line = values.subarray(row * columns, (row + 1) * columns);
    const { first } = this.#picture.grid;
    let best = first;
    for (let place = first; place < columns; place += 1) if (line[place] > line[best]) best = place;
    const outside = line.subarray(0, first).reduce((sum, value) => sum + value, 0);
    const rest = first ? `; ${percent(outside)} stays before the picture` : "";
    return [
      make("b", {}, make("bdi", {}, rowAxis.labels[row])),
      ` looks most at row and column ${columnAxis.labels[best]}, ${percent(line[best])}${rest}. `,
      "The brightest place has the most weight of this row.",
    ];
  }

  #drawing() {
    const { weights } = this.#store.values;
    const { height, width } = this.#picture;
    const scale = Math.max(1, Math.ceil(PICTURE_MOST / Math.max(width, height)));
    const [across, down] = [width * scale, height * scale];
    const words = ["picture", ...this.words(), headLabel(weights.map, weights.head)];
    return { words, width: across, height: down, draw: (pen) => this.#paint(pen, across, down) };
  }
}
