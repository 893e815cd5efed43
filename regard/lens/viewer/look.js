// A look inside a model: a map, the sheet of all heads, lines and predictions, linked by map, head, row and column.
// The data is what `Look.figure()` says: axes, maps with their summaries, predictions, and steps if there are any.

import { placeOf, tokenOf } from "./axis.js";
import { Bars } from "./bars.js";
import { abridge, make, replace } from "./dom.js";
import { Lines } from "./lines.js";
import { headLabel, Maps } from "./maps.js";
import { describeCell, MapView } from "./mapview.js";
import { percent, show } from "./number.js";
import { makeSelect, makeSwitch } from "./panel.js";
import { findPicture, PictureView } from "./pictureview.js";
import { define } from "./registry.js";
import { SCALES } from "./shade.js";
import { Sheet } from "./sheet.js";
import { makeSteps } from "./steps.js";
import { Store } from "./store.js";

const KEYS = [
  ["← ↑ → ↓", "move from cell to cell; Home and End go to a row's ends"],
  ["[ ]", "the layer before, the layer after"],
  [", .", "the head before, the head after"],
  ["Enter", "hold a cell, or let it go"],
  ["Esc", "clear"],
  ["w", "tokens or words"],
  ["+ −", "larger or smaller cells"],
];

const CROWDED = 64; // tokens beyond which weights are so small that only their roots can be told apart

let keyed = null; // the look that keys are meant for where nothing has the focus

class Look {
  constructor(place, { data, arrays, heading }) {
    this.data = data;
    this.heading = heading;
    this.maps = new Maps(data, arrays);
    const group = Math.max(
      0,
      this.maps.groups.findIndex(({ maps }) => maps[0].part === "cross"),
    );
    this.store = new Store({
      group,
      layer: 0,
      head: 0,
      shown: null, // shown: "layer.head" that a pointer is over on the sheet
      unit: "tokens",
      scale: this.maps.longest > CROWDED ? "root" : "linear",
      sort: "layer",
      row: null,
      column: null,
      locked: false,
      moved: 0,
      predicted: null,
      weights: null,
    });
    this.root = place;
    this.wanted = this.present = ""; // which weights were asked for, and which are shown
    this.spoken = { moved: 0, name: "" };
    this.live = make("p", { class: "unseen", "aria-live": "polite" });
    this.readout = make("p", { class: "readout" });
    const words = () => [data.model, this.maps.groups[this.store.values.group].label].filter(Boolean);
    this.map = new MapView(this.store, words);
    const side = make(
      "div",
      { class: "side" },
      new Sheet(this.store, this.maps, words, (error) => this.fail(error)).element,
    );
    if (data.predictions?.length) side.append(new Bars(this.store, data.predictions, data.axes.target, words).element);
    const picture = findPicture(data);
    const panels = [
      picture && new PictureView(this.store, picture, words).element,
      this.map.element,
      side,
      new Lines(this.store, words).element,
    ];
    place.append(
      this.makeHead(),
      ...makeSteps(data),
      this.makeTools(),
      make("div", { class: picture ? "panels pictured" : "panels" }, panels),
      this.makeFoot(),
      this.live,
    );
    for (const event of ["pointerenter", "focusin"]) place.addEventListener(event, () => (keyed = this));
    keyed ??= this;
    document.addEventListener("keydown", (event) => this.press(event));
    this.store.watch((values, changed) => this.update(values, changed));
  }

  makeHead() {
    const { title, model } = this.data;
    // the page's own heading may have said it already
    const sentence =
      title && title.trim() !== this.heading ? make("p", { class: "sentence", dir: "auto" }, abridge(title)) : null;
    return make("div", { class: "look-head" }, sentence, model ? make("p", { class: "note" }, model) : null);
  }

  makeTools() {
    const { store, maps } = this;
    const groups = Object.fromEntries(maps.groups.map(({ label }, n) => [String(n), label]));
    this.groupSwitch = makeSwitch("Which maps", groups, String(store.values.group), (group) =>
      this.chooseGroup(Number(group)),
    );
    this.layerStep = this.makeStepper("layer");
    this.headStep = this.makeStepper("head");
    this.unitSwitch = makeSwitch("Unit", { tokens: "tokens", words: "words" }, "tokens", (unit) =>
      this.chooseUnit(unit),
    );
    const scale = makeSelect("Shades", SCALES, store.values.scale, (chosen) => store.set({ scale: chosen }));
    this.help = make(
      "details",
      { class: "keys" },
      make("summary", {}, "Keys"),
      make(
        "dl",
        {},
        KEYS.map(([keys, what]) => [make("dt", {}, keys), make("dd", {}, what)]),
      ),
    );
    const tools = [
      maps.groups.length > 1 ? this.groupSwitch.element : null,
      this.layerStep.element,
      this.headStep.element,
      maps.haveWords ? this.unitSwitch.element : null,
      scale.element,
      this.help,
    ];
    return make("div", { class: "tools" }, make("div", { class: "tool-line" }, tools), this.readout);
  }

  /** ‹ layer 3 ›: the select has all, the buttons step. */
  makeStepper(name) {
    const select = make("select", { "aria-label": name });
    select.addEventListener("change", () => this.store.set({ [name]: Number(select.value) }));
    const button = (sign, step, what) =>
      make("button", { type: "button", "aria-label": what, onclick: () => this.step(name, step) }, sign);
    const element = make(
      "div",
      { class: "stepper", role: "group", "aria-label": name },
      make("span", {}, name),
      button("‹", -1, `the ${name} before`),
      select,
      button("›", 1, `the ${name} after`),
    );
    return { element, select };
  }

  makeFoot() {
    const { maps } = this;
    const exact = "The numbers are exact, as the model computed them (float32).";
    const rough = `Weights are drawn from rounded values, off by at most ${percent(maps.error)} of a map's largest.`;
    const where = ' Small ones are off by less. Exact ones: look.save("look.npz").';
    return make(
      "p",
      { class: "note foot" },
      maps.exact ? exact : rough + where,
      " Weights say what the model did, not why.",
    );
  }

  get group() {
    return this.maps.groups[this.store.values.group];
  }

  chooseGroup(group) {
    const next = this.maps.groups[group];
    const layer = Math.min(this.store.values.layer, next.maps.length - 1);
    const head = Math.min(this.store.values.head, next.maps[layer].heads - 1);
    const [{ rows, columns }] = this.group.maps;
    const alike = next.maps[0].rows === rows && next.maps[0].columns === columns;
    this.store.set({ group, layer, head, shown: null, ...(alike ? {} : { row: null, column: null, locked: false }) });
  }

  /** The cell that is held stays: a token's word, or a word's first token. */
  chooseUnit(unit) {
    const { row, column, weights, unit: before } = this.store.values;
    if (unit === before || !weights) return;
    const after = this.maps.axesOf(weights.map, unit);
    const move = (place, name) => (place === null ? null : placeOf(after[name], tokenOf(weights[name], place)));
    this.store.set({ unit, row: move(row, "rowAxis"), column: move(column, "columnAxis"), weights: null });
  }

  step(name, by) {
    const { layer, head } = this.store.values;
    const { maps } = this.group;
    if (name === "layer") {
      const next = (layer + by + maps.length) % maps.length;
      this.store.set({ layer: next, head: Math.min(head, maps[next].heads), shown: null });
    } else {
      const count = headCount(maps[layer]);
      this.store.set({ head: (head + by + count) % count, shown: null });
    }
  }

  update(values, changed) {
    if (["group", "layer", "head", "shown", "unit"].some((name) => changed.has(name)))
      this.load().catch((error) => this.fail(error));
    if (changed.has("group")) this.groupSwitch.mark(String(values.group));
    if (changed.has("unit")) this.unitSwitch.mark(values.unit);
    if (["group", "layer", "head"].some((name) => changed.has(name))) this.fillSteppers(values);
    this.tell(values);
    if (changed.has("weights") && values.weights) performance.mark("regard:drawn"); // every view before has drawn them
  }

  fillSteppers({ layer, head }) {
    const { maps } = this.group;
    replace(
      this.layerStep.select,
      maps.map((map, n) => make("option", { value: n, selected: n === layer }, map.layer)),
    );
    const count = headCount(maps[layer]);
    const name = (n) => (n < maps[layer].heads ? n : "mean");
    replace(
      this.headStep.select,
      Array.from({ length: count }, (_, n) => make("option", { value: n, selected: n === head }, name(n))),
    );
    this.layerStep.element.hidden = maps.length === 1;
    this.headStep.element.hidden = maps.every((map) => map.heads === 1);
  }

  /** Bring the weights of what is chosen or pointed at; an answer that comes too late is dropped. */
  async load() {
    const { group, layer, head, shown, unit } = this.store.values;
    const [l, h] = shown === null ? [layer, head] : shown.split(".").map(Number);
    const map = this.maps.groups[group].maps[l];
    this.wanted = `${group} ${l} ${h} ${unit}`;
    const mine = this.wanted;
    this.root.setAttribute("aria-busy", "true");
    const weights = await this.maps.weights(map, h, unit);
    if (mine !== this.wanted) return;
    this.present = mine;
    this.root.removeAttribute("aria-busy");
    const { row, column } = this.store.values;
    const inside = (place, count) => (place !== null && place < count ? place : null);
    this.store.set({ weights, row: inside(row, weights.rows), column: inside(column, weights.columns) });
  }

  /** Say, once, that something of the page can't be read; what can be is still shown. */
  fail(error) {
    this.root.removeAttribute("aria-busy");
    if (!this.failed)
      this.root.prepend(make("p", { class: "failure", role: "alert" }, `Something can't be shown: ${error.message}`));
    this.failed = true;
  }

  /** The line above all views, and what a screen reader hears after a key. */
  tell(values) {
    const { weights, row, column, locked } = values;
    if (!weights) return;
    const name = headLabel(weights.map, weights.head);
    const cell = describeCell(weights, row, column);
    const summary = weights.map.summary?.[weights.head] ?? {};
    const facts = Object.entries(summary)
      .filter(([, value]) => Number.isFinite(value))
      .map(([what, value]) => make("span", { class: "fact" }, `${what} `, make("b", {}, show(value))));
    const held = locked ? make("span", { class: "held" }, "held, Esc clears") : null;
    replace(
      this.readout,
      make("span", { class: "where" }, name),
      cell ? make("span", { class: "said" }, this.arrow(values)) : null,
      held,
      cell ? null : facts,
    );
    this.speak(values, name, cell);
  }

  /** After a key, and not before the weights that it asked for are there. */
  speak({ moved, locked }, name, cell) {
    if (moved === this.spoken.moved || this.present !== this.wanted) return;
    const told = [name !== this.spoken.name || !cell ? name : null, cell, locked ? "held" : null];
    replace(this.live, told.filter(Boolean).join(", "));
    this.spoken = { moved, name };
  }

  /** A cell as it is read: from → to, and the weight. */
  arrow({ weights, row, column }) {
    const { rowAxis, columnAxis, values, columns, exact } = weights;
    const from = row === null ? null : make("bdi", {}, rowAxis.labels[row]);
    const to = column === null ? null : make("bdi", {}, columnAxis.labels[column]);
    const value =
      from && to
        ? make(
            "span",
            { class: "weight" },
            `${exact ? "" : "≈ "}${show(values[row * columns + column], exact ? 4 : 2)}`,
          )
        : null;
    return [from, " → ", to, value];
  }

  press(event) {
    if (!this.root.contains(event.target) && !(event.target === document.body && keyed === this)) return;
    const plain = !(event.ctrlKey || event.metaKey || event.altKey) || event.getModifierState("AltGraph");
    if (!plain || event.target.closest?.("select, input, textarea")) return;
    const act = this.actions(event)[event.key];
    if (!act) return;
    event.preventDefault();
    act();
    this.store.set({ moved: this.store.values.moved + 1 });
  }

  actions(event) {
    const onGrid = event.target.getAttribute?.("role") === "gridcell" || event.target === document.body;
    const always = {
      "[": () => this.step("layer", -1),
      "]": () => this.step("layer", 1),
      ",": () => this.step("head", -1),
      ".": () => this.step("head", 1),
      "+": () => this.map.zoom(1.5),
      "-": () => this.map.zoom(1 / 1.5),
      w: () => this.maps.haveWords && this.chooseUnit(this.store.values.unit === "tokens" ? "words" : "tokens"),
      Escape: () => this.clear(),
    };
    if (!onGrid) return always;
    const { columns } = this.store.values.weights ?? { columns: 1 };
    return {
      ...always,
      ArrowUp: () => this.move(-1, 0),
      ArrowDown: () => this.move(1, 0),
      ArrowLeft: () => this.move(0, -1),
      ArrowRight: () => this.move(0, 1),
      Home: () => this.move(0, -columns),
      End: () => this.move(0, columns),
      Enter: () => this.hold(),
    };
  }

  move(down, across) {
    const { weights, row, column } = this.store.values;
    if (!weights) return;
    const go = (place, by, count) => (place === null ? 0 : Math.min(count - 1, Math.max(0, place + by)));
    this.store.set({ row: go(row, down, weights.rows), column: go(column, across, weights.columns) });
    this.map.focus();
  }

  clear() {
    this.help.open = false;
    this.store.set({ row: null, column: null, locked: false, predicted: null, shown: null });
  }

  hold() {
    const { row, column, locked } = this.store.values;
    this.store.set({ row: row ?? 0, column: column ?? 0, locked: !locked });
  }
}

/** Heads, and their mean where there are several. */
function headCount(map) {
  return map.heads > 1 ? map.heads + 1 : 1;
}

function drawLook(place, figure) {
  if (!figure.data.maps.length) throw new Error("it has no maps");
  new Look(place, figure);
}

define("look", drawLook);
