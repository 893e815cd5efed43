// The sheet: every layer and head of a group as a thumbnail, in order or sorted by what is known of them. Pointing at
// one shows it in the other views, a click or the arrow keys choose it.

import { make, replace } from "./dom.js";
import { headLabel, headName } from "./maps.js";
import { show } from "./number.js";
import { makePanel, makeSelect, markOption, rove } from "./panel.js";
import { readColors, savePng, saveSvg } from "./pen.js";
import { fileName, saveText, toCsv } from "./save.js";
import { makeShades, paint } from "./shade.js";
import { makeTable, scrollBox } from "./table.js";
import { isDark, watchTheme } from "./theme.js";

const [THUMBNAIL_LEAST, THUMBNAIL_MOST] = [24, 84]; // pixels of a thumbnail
const GAP = 3; // and of what is between them
const CAPTION = 56; // and of what is written below one
const WIDE_GAP = 8; // where a caption stands below each
const RISING = new Set(["entropy", "distance"]); // the lowest come first: heads that look at few places, or near

export class Sheet {
  #store;
  #maps;
  #box = make("div", { class: "thumbnails", role: "listbox", "aria-label": "Layers and heads" });
  #sorts;
  #panel;
  #thumbs = new Map(); // by the map's name: what is painted
  #size = THUMBNAIL_MOST;
  #gap = GAP;
  #fail; // told of what can't be read

  constructor(store, maps, words, fail) {
    this.#store = store;
    this.#maps = maps;
    this.words = words;
    this.#fail = fail;
    this.#sorts = make("div", { class: "sorts" });
    const saves = {
      CSV: () => this.#saveCsv(),
      PNG: () => savePng(this.#picture()),
      SVG: () => saveSvg(this.#picture()),
    };
    this.#panel = makePanel({ title: "Layers and heads", saves, table: () => this.#table() });
    this.element = this.#panel.element;
    this.element.classList.add("sheet");
    this.#panel.body.append(this.#sorts, this.#box);
    rove(
      this.#box,
      () => this.#across(),
      (option) => this.#choose(option),
    );
    this.#box.addEventListener("click", (event) => this.#choose(event.target.closest('[role="option"]')));
    this.#box.addEventListener("pointerover", (event) => this.#preview(event));
    this.#box.addEventListener("pointerleave", () => store.set({ shown: null }));
    new ResizeObserver(() => this.#resize()).observe(this.#panel.body);
    watchTheme(() => this.#paintAll());
    store.watch((values, changed) => this.#update(changed));
  }

  get #group() {
    return this.#maps.groups[this.#store.values.group];
  }

  /** What heads can be sorted by: whatever all of them have. */
  get #measures() {
    const summaries = this.#group.maps.flatMap((map) => map.summary ?? []);
    return Object.keys(summaries[0] ?? {}).filter((name) =>
      summaries.some((summary) => Number.isFinite(summary[name])),
    );
  }

  /** All heads as { layer, head, map, summary }, in the order that the reader wants. */
  #heads() {
    const { sort } = this.#store.values;
    const found = this.#group.maps.flatMap((map, layer) =>
      Array.from({ length: map.heads }, (_, head) => ({ layer, head, map, summary: map.summary?.[head] ?? {} })),
    );
    if (sort === "layer") return found;
    const sign = RISING.has(sort) ? 1 : -1;
    const key = ({ summary }) => (Number.isFinite(summary[sort]) ? sign * summary[sort] : Infinity);
    return found.sort((a, b) => key(a) - key(b));
  }

  #update(changed) {
    this.element.hidden = this.#group.maps.length === 1 && this.#group.maps[0].heads === 1;
    if (changed.has("group")) this.#offerSorts();
    if (changed.has("group") || changed.has("sort")) this.#build();
    else if (changed.has("scale")) this.#paintAll();
    if (["group", "sort", "layer", "head"].some((name) => changed.has(name))) this.#mark();
  }

  #offerSorts() {
    const measures = this.#measures;
    const choices = {
      layer: "layer",
      ...Object.fromEntries(
        measures.map((name) => [name, `${name}, ${RISING.has(name) ? "lowest" : "highest"} first`]),
      ),
    };
    if (!(this.#store.values.sort in choices)) this.#store.set({ sort: "layer" });
    const { element } = makeSelect("Sort by", choices, this.#store.values.sort, (sort) => this.#store.set({ sort }));
    replace(this.#sorts, measures.length ? element : null);
  }

  #build() {
    const byLayer = this.#store.values.sort === "layer";
    this.#thumbs.clear();
    this.#box.classList.toggle("by-layer", byLayer);
    const heads = this.#heads();
    const lines = byLayer
      ? this.#group.maps.map((map, layer) => this.#line(map, layer))
      : heads.map((each) => this.#option(each));
    replace(this.#box, byLayer ? this.#headNames() : null, lines);
    this.#resize();
    for (const map of this.#group.maps) this.#load(map).catch(this.#fail);
    this.#panel.refresh();
  }

  /** The numbers of the heads, above them. */
  #headNames() {
    const most = Math.max(...this.#group.maps.map((map) => map.heads));
    const names = Array.from({ length: most }, (_, head) => make("span", { class: "head-name" }, head));
    if (most > 1) names.push(make("span", { class: "head-name mean" }, "mean"));
    return make("div", { class: "layer", "aria-hidden": "true" }, make("span", { class: "layer-name" }), names);
  }

  #line(map, layer) {
    const options = Array.from({ length: map.heads }, (_, head) =>
      this.#option({ layer, head, map, summary: map.summary?.[head] ?? {} }),
    );
    if (map.heads > 1) options.push(this.#option({ layer, head: map.heads, map, summary: {} }));
    return make(
      "div",
      { class: "layer", role: "presentation" },
      make("span", { class: "layer-name", "aria-hidden": "true" }, map.layer),
      options,
    );
  }

  #option({ layer, head, map, summary }) {
    const { sort } = this.#store.values;
    const value = sort === "layer" ? null : summary[sort];
    const told = Object.entries(summary)
      .filter(([, number]) => Number.isFinite(number))
      .slice(0, 3)
      .map(([name, number]) => `${name} ${show(number)}`);
    const label = [headLabel(map, head), ...(sort === "layer" ? told : [`${sort} ${show(value)}`])].join(", ");
    const caption =
      sort === "layer"
        ? null
        : make(
            "span",
            { class: "caption", "aria-hidden": "true" },
            make("b", {}, headName(map, head)),
            ` ${show(value, 2)}`,
          );
    const canvas = make("canvas", { width: 1, height: 1, "aria-hidden": "true" });
    const settings = {
      role: "option",
      class: head < map.heads ? "thumbnail" : "thumbnail mean",
      "aria-label": label,
      title: label,
    };
    return make("div", { ...settings, "data-layer": layer, "data-head": head, "data-name": map.name }, canvas, caption);
  }

  /** Thumbnails grow with the room that there is for the heads of a layer, or for what is written below them. */
  #resize() {
    const inLines = this.#store.values.sort === "layer";
    const room = this.#panel.body.clientWidth - (inLines ? 26 : 6);
    this.#gap = inLines ? GAP : WIDE_GAP;
    const heads = Math.max(...this.#group.maps.map((map) => map.heads + (map.heads > 1 ? 1 : 0)));
    const most = inLines ? heads : Math.min(6, Math.max(1, Math.floor(room / (CAPTION + this.#gap))));
    const size = Math.min(THUMBNAIL_MOST, Math.max(THUMBNAIL_LEAST, Math.floor(room / most) - this.#gap));
    const changed = size !== this.#size;
    this.#size = size;
    this.#box.style.setProperty("--thumbnail", `${size}px`);
    this.#box.style.setProperty("--gap", `${this.#gap}px`);
    if (changed) this.#paintAll();
  }

  async #load(map) {
    const thumbs = await this.#maps.thumbnails(map);
    this.#thumbs.set(map.name, [...thumbs, meanOf(thumbs)]);
    this.#paint(map.name);
  }

  #paintAll() {
    for (const name of this.#thumbs.keys()) this.#paint(name);
  }

  #paint(name) {
    const shades = makeShades(isDark());
    const most = Math.max(8, Math.round(this.#size * (devicePixelRatio || 1)));
    for (const option of this.#box.querySelectorAll('[role="option"]')) {
      if (option.dataset.name !== name) continue;
      const thumb = this.#thumbs.get(name)[Number(option.dataset.head)];
      const painted = paint(thumb, this.#store.values.scale, shades, most);
      const canvas = option.querySelector("canvas");
      Object.assign(canvas, { width: painted.width, height: painted.height });
      canvas.getContext("2d").drawImage(painted, 0, 0);
    }
  }

  #across() {
    if (this.#store.values.sort === "layer")
      return this.#box.querySelector('.layer[role="presentation"]').querySelectorAll('[role="option"]').length;
    return Math.max(1, Math.floor((this.#box.clientWidth - 6 + this.#gap) / (this.#size + this.#gap)));
  }

  #choose(option) {
    if (!option) return;
    this.#store.set({ layer: Number(option.dataset.layer), head: Number(option.dataset.head), shown: null });
  }

  #preview(event) {
    const option = event.target.closest('[role="option"]');
    if (event.pointerType === "touch" || !option) return;
    this.#store.set({ shown: `${option.dataset.layer}.${option.dataset.head}` });
  }

  #mark() {
    const { layer, head } = this.#store.values;
    markOption(this.#box, this.#box.querySelector(`[data-layer="${layer}"][data-head="${head}"]`));
  }

  #rows() {
    const measures = this.#measures;
    const lines = this.#heads().map(({ map, head, summary }) => [
      map.layer,
      head,
      ...measures.map((name) => summary[name] ?? null),
    ]);
    return { columns: ["layer", "head", ...measures], rows: lines };
  }

  #table() {
    return scrollBox(
      "Numbers of layers and heads",
      makeTable({ ...this.#rows(), caption: "What is known of each head", digits: 4 }),
    );
  }

  #saveCsv() {
    const { columns, rows } = this.#rows();
    saveText(fileName(["heads", ...this.words()], "csv"), toCsv([columns, ...rows]), "text/csv");
  }

  #picture() {
    const [colors, shades, { scale, sort }] = [readColors(), makeShades(isDark()), this.#store.values];
    const heads = this.#heads();
    const across =
      sort === "layer" ? Math.max(...this.#group.maps.map((map) => map.heads)) : Math.ceil(Math.sqrt(heads.length));
    const size = 72;
    const place = ({ layer, head }, n) => (sort === "layer" ? [head, layer] : [n % across, Math.floor(n / across)]);
    const down = sort === "layer" ? this.#group.maps.length : Math.ceil(heads.length / across);
    const draw = (pen) =>
      heads.forEach((each, n) => {
        const [x, y] = place(each, n).map((at) => 10 + at * (size + 20));
        pen.image(paint(this.#thumbs.get(each.map.name)[each.head], scale, shades, 2 * size), x, y, size, size);
        pen.rect(x - 0.5, y - 0.5, size + 1, size + 1, { stroke: colors.line });
        const caption = `${headName(each.map, each.head)}${sort === "layer" ? "" : `  ${show(each.summary[sort], 2)}`}`;
        pen.text(x, y + size + 9, caption, { size: 10, fill: colors.ink });
      });
    return {
      words: ["heads", ...this.words()],
      width: across * (size + 20) + 10,
      height: down * (size + 20) + 14,
      draw,
    };
  }
}

function meanOf(thumbs) {
  const [{ rows, columns }] = thumbs;
  const values = new Float32Array(rows * columns);
  for (const thumb of thumbs) for (let n = 0; n < values.length; n += 1) values[n] += thumb.values[n] / thumbs.length;
  return { rows, columns, values, top: values.reduce((top, value) => Math.max(top, value), 0) };
}
