// A plot of an experiment: { title, note, across, down, named, logarithmic: { across, down }, series: [{ name, guide,
// place, value, low, high }, …] }. Where places are numbers, lines with marks (plot.js); where they are names, bars
// (groups.js). The drawing is a slider: arrows go from place to place, and what every series has there is told.

import { make, replace, uniqueId } from "./dom.js";
import { measureGroups, paintGroups } from "./groups.js";
import { showInterval, showValue } from "./number.js";
import { makeSaves } from "./panel.js";
import { fitCanvas, readColors, savePng, saveSvg, shorten } from "./pen.js";
import { LEGEND_LINE, bounds, canDraw, paintLegend, paintPlot } from "./plot.js";
import { define } from "./registry.js";
import { guideName, makeLegend, openBox, runName } from "./runs.js";
import { fileName, saveText, toCsv } from "./save.js";
import { makeScale } from "./scale.js";
import { listenSlider } from "./slider.js";
import { Store } from "./store.js";
import { makeTable, scrollBox } from "./table.js";
import { watchTheme } from "./theme.js";

const TALL = 320;
const SHORT = 260; // on a telephone
const SAVED = { width: 720, height: 380, title: 30 }; // a picture by itself
const MANY = 40; // points of a series from which on they have no marks

/** Measured series and formulas are numbered apart, so that each has a look of its own. */
function numberSeries(series) {
  const counts = { true: 0, false: 0 };
  return series.map((one) => ({ ...one, number: counts[one.guide]++ }));
}

function nameSeries({ name, guide, number }) {
  return guide ? guideName(name, number) : runName(name, number);
}

class Graph {
  constructor(data) {
    this.data = data;
    this.series = numberSeries(data.series);
    this.store = new Store({ hidden: new Set(), at: null, locked: false });
    const id = uniqueId("graph");
    this.canvas = make("canvas", {});
    const told = { role: "slider", tabindex: "0", "aria-labelledby": id, "aria-valuemin": "0" };
    this.slider = make("div", { class: "graph-drawing", ...told }, this.canvas);
    this.readout = make("div", { class: "graph-values", "aria-hidden": "true" });
    const legend = makeLegend(`Series of ${data.title} that are shown`, this.series.map(nameSeries), this.store);
    this.element = make(
      "figure",
      { class: "chart" },
      this.#makeHead(id),
      data.note ? make("p", { class: "note", dir: "auto" }, data.note) : null,
      this.series.length > 1 ? legend : null,
      this.slider,
      this.readout,
      this.#makeNumbers(),
    );
    const view = { stops: () => this.stops, find: (at) => this.stops.indexOf(at), seek: (event) => this.#seek(event) };
    listenSlider(this.slider, this.store, { ...view, falling: data.named });
  }

  start() {
    new ResizeObserver(() => this.#draw()).observe(this.slider);
    this.store.watch(() => this.#update());
    watchTheme(() => this.#draw());
  }

  #makeHead(id) {
    const { title } = this.data;
    const table = () => toCsv([this.#columns(), ...this.#rows()]);
    const saves = {
      CSV: () => saveText(fileName([title], "csv"), table(), "text/csv"),
      PNG: () => savePng(this.#picture()),
      SVG: () => saveSvg(this.#picture()),
    };
    const tools = make("div", { class: "chart-tools" }, makeSaves(title, saves));
    return make("div", { class: "part-head" }, make("h2", { id, dir: "auto" }, title), tools);
  }

  #columns() {
    return ["series", this.data.across, this.data.down, ...(this.#hasIntervals() ? ["low", "high"] : [])];
  }

  #hasIntervals() {
    return this.series.some(({ low, high }) => [...low, ...high].some((end) => end !== null));
  }

  #rows() {
    const both = this.#hasIntervals();
    return this.series.flatMap(({ name, place, value, low, high }) =>
      place.map((each, n) => [name, each, value[n], ...(both ? [low[n], high[n]] : [])]),
    );
  }

  #makeNumbers() {
    const { title } = this.data;
    const table = () => makeTable({ columns: this.#columns(), rows: this.#rows(), caption: title });
    const hidden = make("span", { class: "unseen" }, ` of ${title}`);
    return openBox(["Numbers", hidden], () => scrollBox(`${title}: numbers`, table()));
  }

  /** The place that is nearest to a pointer, among those that have a value. */
  #seek(event) {
    const box = this.slider.getBoundingClientRect();
    if (!this.scale || !this.stops.length) return null;
    if (this.data.named) return this.stops[this.scale(event.clientY - box.top)];
    const gap = (stop) => Math.abs(this.scale.place(stop) - (event.clientX - box.left));
    return this.stops.reduce((best, stop) => (gap(stop) < gap(best) ? stop : best));
  }

  #update() {
    const { hidden } = this.store.values;
    const { named, logarithmic } = this.data;
    this.shown = this.series.filter((_, n) => !hidden.has(n));
    // formulas have as many points as make them smooth; what one goes through is what was measured
    const measured = this.shown.filter(({ guide }) => !guide);
    const kept = (named ? this.series : measured.length ? measured : this.shown).flatMap(({ place, value }) =>
      place.filter((each, n) => named || (canDraw(each, logarithmic.across) && canDraw(value[n], logarithmic.down))),
    );
    this.stops = [...new Set(kept)];
    if (!named) this.stops.sort((a, b) => a - b);
    this.#draw();
    this.#tell();
  }

  /** What paintGroups or paintPlot draws. */
  #describe(at) {
    const { data, shown, stops } = this;
    const { locked } = this.store.values;
    const common = { at: stops.includes(at) ? at : null, locked, logarithmic: data.logarithmic.down };
    if (data.named) {
      return { ...common, names: stops, down: data.down, traces: shown.map((one) => spreadOut(one, stops)) };
    }
    const [low, high] = bounds(shown.flatMap(({ place }) => place.filter((each) => this.#fits(each)))) ?? [1, 2];
    const ends = { low, high, logarithmic: data.logarithmic.across };
    const several = this.series.filter(({ guide }) => !guide).length > 1;
    const names = { across: data.across, down: data.down };
    return { ...common, traces: shown.map(makeTrace), ends, several, names, stops: stops.length > 24 ? null : stops };
  }

  #fits(place) {
    return canDraw(place, this.data.logarithmic.across);
  }

  #draw() {
    const width = Math.floor(this.slider.clientWidth);
    if (!width) return;
    const chart = this.#describe(this.store.values.at);
    const height = this.data.named ? measureGroups(chart).height : width < 520 ? SHORT : TALL;
    const pen = fitCanvas(this.canvas, width, height);
    this.scale = this.data.named ? paintGroups(pen, chart, width, 0) : paintPlot(pen, chart, width, height, 0);
  }

  /** The graph by itself, for a file: with its title and its legend. */
  #picture() {
    const { width, title } = SAVED;
    const chart = this.#describe(null);
    const height = this.data.named ? measureGroups(chart).height : SAVED.height;
    const entries = this.series.length > 1 ? this.shown.map((one) => ({ ...one, label: one.name })) : [];
    const draw = (pen) => {
      const words = shorten(this.data.title, width - 24, 15, 600);
      pen.text(12, 17, words, { size: 15, weight: 600, fill: readColors().ink });
      if (this.data.named) paintGroups(pen, chart, width, title);
      else paintPlot(pen, chart, width, height, title);
      paintLegend(pen, entries, width, title + height);
    };
    return { words: [this.data.title], width, height: title + height + LEGEND_LINE * entries.length + 8, draw };
  }

  /** What a series has at a place; of a formula, what can be read off its line. */
  #valueAt(one, at) {
    const n = one.place.indexOf(at);
    if (n >= 0 && one.value[n] !== null) return `${showValue(one.value[n])}${showInterval(one.low[n], one.high[n])}`;
    const between = one.guide && !this.data.named ? interpolate(one, at, this.data.logarithmic) : null;
    return between === null ? "–" : showValue(between);
  }

  /** What every series has at the place that is chosen; while none is, at the last on an axis, the first of names. */
  #tell() {
    const { at, locked } = this.store.values;
    const { named, across } = this.data;
    const last = this.stops.length - 1;
    const found = this.stops.indexOf(at);
    const index = found >= 0 ? found : named ? 0 : last;
    const place = this.stops[index];
    const where = place === undefined ? "" : named ? place : `${across} ${showValue(place)}`;
    const values = this.shown.map((one) => ({ one, text: place === undefined ? "–" : this.#valueAt(one, place) }));
    const lines = values.map(({ one, text }) =>
      make("span", { class: "graph-value" }, this.series.length > 1 ? nameSeries(one) : null, make("b", {}, text)),
    );
    const note = found >= 0 && locked ? ", locked" : "";
    replace(this.readout, make("span", { class: "chart-where", dir: "auto" }, `${where}${note}`), lines);
    const heard = values.map(({ one, text }) => (this.series.length > 1 ? `${one.name}: ${text}` : text)).join("; ");
    this.slider.setAttribute("aria-valuemax", String(Math.max(0, last)));
    this.slider.setAttribute("aria-valuenow", String(Math.max(0, index)));
    this.slider.setAttribute("aria-valuetext", `${where}${note}: ${heard || "nothing"}`);
  }
}

/** A series as plot.js draws it. */
function makeTrace({ number, guide, place: places, value: values, low, high }) {
  if (guide) return { number, guide: { places, values } };
  const marks = { places, values, low, high, best: -1, many: places.length > MANY };
  return { number, line: { places, values }, marks };
}

/** A series as groups.js draws it: one entry for each name. */
function spreadOut({ number, guide, place, ...columns }, names) {
  const pick = (column) => names.map((name) => column[place.indexOf(name)] ?? null);
  return { number, guide, values: pick(columns.value), low: pick(columns.low), high: pick(columns.high) };
}

/** The value of a line between two of its points, straight as it is drawn; null beyond its ends. */
function interpolate({ place, value }, at, logarithmic) {
  const there = place
    .map((each, n) => [each, value[n]])
    .filter(([each, one]) => canDraw(each, logarithmic.across) && canDraw(one, logarithmic.down))
    .sort((a, b) => a[0] - b[0]);
  const after = there.findIndex(([each]) => each >= at);
  if (after < 0 || (after === 0 && there[0][0] > at)) return null;
  if (there[after][0] === at) return there[after][1];
  const [[from, low], [to, high]] = [there[after - 1], there[after]];
  const share = makeScale({ low: from, high: to, logarithmic: logarithmic.across }, 0, 1).place(at);
  return makeScale({ low, high, logarithmic: logarithmic.down }, 0, 1).value(share);
}

function drawGraph(place, { data }) {
  const graph = new Graph(data);
  place.append(graph.element);
  graph.start();
}

define("graph", drawGraph);
