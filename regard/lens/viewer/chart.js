// One chart of a quantity over steps, tokens or minutes, for all runs: what was logged as a line, what evaluations
// measured as marks. The chart is a slider for keys and screen readers: arrows go from point to point, and the text of
// its value tells what every run has there. Below it stands the same for eyes, then the numbers behind it.

import { logTicks, makeScale, niceTicks, shortNumber, smoothValues } from "./scale.js";
import { make, replace, uniqueId } from "./dom.js";
import { show } from "./number.js";
import { fitCanvas, measure, readColors, savePng, saveSvg, shorten } from "./pen.js";
import { markStrokes, openBox, runName, runStyle } from "./runs.js";
import { fileName, saveText, toCsv } from "./save.js";
import { makeTable, scrollBox } from "./table.js";
import { watchTheme } from "./theme.js";

const HEIGHT = 210;
const EDGE = { top: 10, right: 14, bottom: 24 };
const JUMP = 10; // points that Page Up and Page Down go
const LEGEND = 18; // pixels of a line of the legend in a saved picture

function bounds(values) {
  const there = values.filter((value) => value !== null && value !== undefined);
  return there.length ? [Math.min(...there), Math.max(...there)] : null;
}

function showValue(value) {
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : show(value, 4);
}

/** The index whose place is nearest. */
function nearestIndex(places, wanted) {
  let best = null;
  places.forEach((one, n) => {
    if (one !== null && (best === null || Math.abs(one - wanted) < Math.abs(places[best] - wanted))) best = n;
  });
  return best;
}

export class Chart {
  constructor(panel, runs, store, { axes, smoothing }) {
    Object.assign(this, { panel, runs, store, axes, smoothing });
    this.logarithmic = panel.logarithmic;
    this.traces = [];
    this.canvas = make("canvas", {});
    const id = uniqueId("chart");
    this.slider = make("div", { class: "plot", role: "slider", tabindex: "0", "aria-labelledby": id, "aria-valuemin": "0" }, this.canvas);
    this.readout = make("div", { class: "chart-values", "aria-hidden": "true" });
    this.element = make("figure", { class: "chart" }, this.#makeHead(id), this.slider, this.readout, this.#makeNumbers());
    this.#listen();
  }

  /** Draw for the first time, once the chart is on the page, and again whenever something changes. */
  start() {
    new ResizeObserver(() => this.#draw()).observe(this.slider);
    this.store.watch(() => this.#update());
    watchTheme(() => this.#draw());
  }

  #makeHead(id) {
    const button = (text, act, more = {}) => make("button", { type: "button", class: "quiet", onclick: act, ...more }, text);
    const csv = () => saveText(fileName(["curves", this.panel.title], "csv"), toCsv([this.#columns(), ...this.#rows()]), "text/csv");
    const positive = this.runs.every((run) => [run.series, run.measures].every((all) => (all[this.panel.name]?.value ?? []).every((one) => one === null || one > 0)));
    const scale = button("log", () => {
      this.logarithmic = !this.logarithmic;
      scale.setAttribute("aria-pressed", String(this.logarithmic));
      this.#draw();
    }, { "aria-pressed": String(this.logarithmic), title: "Logarithmic axis" });
    if (!positive) this.logarithmic = false;
    return make("div", { class: "part-head" }, make("h3", { id, dir: "auto" }, this.panel.title),
      make("div", { class: "chart-tools" }, positive ? scale : null, button("CSV", csv), button("PNG", () => savePng(this.#picture())), button("SVG", () => saveSvg(this.#picture()))));
  }

  /** Rows of numbers: each point of each run. */
  #columns() {
    return ["run", "what", "step", "tokens", "minutes", this.panel.name, "low", "high"];
  }

  #rows() {
    return this.runs.flatMap((run) => [["training", run.logged, run.series], ["validation", run.evaluated, run.measures]].flatMap(([what, course, all]) => {
      const series = all[this.panel.name];
      if (!series) return [];
      return course.step.map((step, n) => [run.label, what, step, course.tokens[n], course.minutes[n], series.value[n], series.low?.[n] ?? null, series.high?.[n] ?? null])
        .filter((row) => row[5] !== null);
    }));
  }

  #makeNumbers() {
    return openBox("Numbers", () => scrollBox(`${this.panel.title}: numbers`, makeTable({ columns: this.#columns(), rows: this.#rows(), caption: this.panel.title })));
  }

  #listen() {
    const { slider, store } = this;
    const point = (event) => {
      if (store.values.locked || !this.across) return;
      const { left } = slider.getBoundingClientRect();
      store.set({ at: this.across.value(event.clientX - left) });
    };
    slider.addEventListener("pointermove", point);
    slider.addEventListener("pointerleave", () => store.values.locked || store.set({ at: null }));
    slider.addEventListener("click", (event) => {
      const locked = !store.values.locked;
      store.set({ locked });
      point(event);
    });
    slider.addEventListener("blur", () => store.values.locked || store.set({ at: null }));
    slider.addEventListener("keydown", (event) => this.#press(event));
  }

  #press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { store, stops } = this;
    const here = store.values.at === null ? null : nearestIndex(stops, store.values.at);
    const moves = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: JUMP, PageDown: -JUMP };
    const last = stops.length - 1;
    if (event.key in moves) {
      const next = here === null ? (moves[event.key] > 0 ? 0 : last) : Math.min(last, Math.max(0, here + moves[event.key]));
      store.set({ at: stops[next] ?? null });
    } else if (event.key === "Home") store.set({ at: stops[0] ?? null });
    else if (event.key === "End") store.set({ at: stops[last] ?? null });
    else if (event.key === "Enter") store.set({ locked: !store.values.locked && store.values.at !== null });
    else if (event.key === "Escape") store.set({ at: null, locked: false });
    else return;
    event.preventDefault();
  }

  /** What is drawn of each run that is shown: places, the line, its rough edges, and the marks. */
  #collect() {
    const { axis, hidden, smoothing } = this.store.values;
    const { name, noisy } = this.panel;
    const divide = this.smoothing[smoothing];
    return this.runs.map((run, number) => {
      if (hidden.has(number)) return null;
      const logged = run.series[name];
      const measured = run.measures[name];
      if (!logged && !measured) return null;
      const reach = noisy && divide && logged ? Math.floor(logged.value.length / divide) : 0;
      return {
        number, run,
        line: logged && { places: run.logged[axis], raw: logged, values: smoothValues(logged.value, reach), rough: reach > 0 || run.steps > 1 },
        marks: measured && { places: run.evaluated[axis], values: measured.value, low: measured.low, high: measured.high, best: run.best },
      };
    }).filter(Boolean);
  }

  #update() {
    this.traces = this.#collect();
    const places = this.traces.flatMap(({ line, marks }) => [...(line?.places ?? []), ...(marks?.places ?? [])]).filter((one) => one !== null);
    this.stops = [...new Set(places)].sort((a, b) => a - b);
    // all charts go from the same place to the same place, so that one can be read below the other
    const { axis, hidden } = this.store.values;
    const [low, high] = bounds(this.runs.flatMap((run, number) => (hidden.has(number) ? [] : [...run.logged[axis], ...run.evaluated[axis]]))) ?? [0, 1];
    this.ends = { low, high };
    this.#draw();
    this.#tell();
  }

  #draw() {
    const width = Math.floor(this.slider.clientWidth);
    if (!width) return;
    this.across = this.#paint(fitCanvas(this.canvas, width, HEIGHT), width, HEIGHT, 0, this.store.values.at);
  }

  #picture() {
    const lines = this.traces.length > 1 || this.runs.length > 1 ? this.traces.length : 0;
    const [width, height] = [640, 320];
    const draw = (pen) => {
      const colors = readColors();
      pen.text(12, 16, this.panel.title, { size: 14, weight: 600, fill: colors.ink });
      this.#paint(pen, width, height, 28, null);
      this.traces.slice(0, lines).forEach(({ number, run }, n) => {
        const y = height + 28 + LEGEND * n + LEGEND / 2;
        const { color, dash, shape } = runStyle(number);
        pen.line([[16, y], [52, y]], { stroke: color, thick: 2, dash });
        markStrokes(shape, 34, y, 3.6).forEach((points) => pen.line(points, { stroke: color, thick: 1.8 }));
        pen.text(62, y, shorten(run.label, width - 80), { fill: colors.ink });
      });
    };
    return { words: ["curves", this.panel.title], width, height: height + 34 + LEGEND * lines, draw };
  }

  #range() {
    const drawn = this.traces.flatMap(({ line, marks }) => [...(line?.values ?? []), ...(marks?.values ?? []), ...(marks?.low ?? []), ...(marks?.high ?? [])]);
    const found = bounds(drawn);
    if (!found) return null;
    const rough = bounds(this.traces.flatMap(({ line }) => (line?.rough ? [...(line.raw.low ?? line.raw.value), ...(line.raw.high ?? line.raw.value)] : []))) ?? found;
    const room = 0.25 * (found[1] - found[0]); // rough edges beyond are cut, or one peak would flatten everything
    let [low, high] = [Math.max(Math.min(found[0], rough[0]), found[0] - room), Math.min(Math.max(found[1], rough[1]), found[1] + room)];
    if (this.logarithmic && low <= 0) low = found[0] > 0 ? found[0] : 1e-12;
    if (high <= low) [low, high] = low === 0 ? [0, 1] : this.logarithmic ? [low / 2, low * 2] : [low - Math.abs(low) / 10, low + Math.abs(low) / 10];
    return { low, high, logarithmic: this.logarithmic };
  }

  /** Draw the chart with a pen; the scale of its x axis. */
  #paint(pen, width, height, top, at) {
    const colors = readColors();
    const range = this.#range();
    if (!range || !this.stops.length) {
      pen.text(width / 2, top + height / 2, "no run that is shown has this", { align: "center", fill: colors.muted });
      return null;
    }
    const upper = top + EDGE.top;
    const lower = top + height - EDGE.bottom;
    const ticks = range.logarithmic ? logTicks(range.low, range.high, 5) : niceTicks(range.low, range.high, 4);
    const left = 8 + Math.max(22, ...ticks.map((tick) => measure(shortNumber(tick), 11)));
    const ends = { ...this.ends };
    if (ends.low === ends.high) Object.assign(ends, { low: ends.low - 1, high: ends.high + 1 });
    const across = makeScale(ends, left + 6, width - EDGE.right);
    const down = makeScale(range, lower - 3, upper + 3);
    for (const tick of ticks) {
      const y = Math.round(down.place(tick)) + 0.5;
      pen.line([[left, y], [width - EDGE.right + 6, y]], { stroke: colors.line });
      pen.text(left - 5, y, shortNumber(tick), { size: 11, align: "right", fill: colors.muted });
    }
    this.#paintPlaces(pen, across, ends, lower, width, colors);
    const keep = (y) => Math.min(lower, Math.max(upper, y));
    for (const trace of this.traces) if (trace.line) this.#paintRough(pen, trace, across, down, keep);
    for (const trace of this.traces) if (trace.line) this.#paintLine(pen, trace, across, down, keep);
    for (const trace of this.traces) if (trace.marks) this.#paintMarks(pen, trace, across, down, colors);
    if (at !== null && at !== undefined) {
      const x = Math.min(width - EDGE.right, Math.max(left + 6, across.place(at)));
      pen.line([[x, upper], [x, lower]], { stroke: colors.ink, thick: this.store.values.locked ? 1.5 : 1, opacity: 0.7, dash: this.store.values.locked ? [] : [3, 3] });
    }
    return across;
  }

  #paintPlaces(pen, across, ends, lower, width, colors) {
    const places = niceTicks(ends.low, ends.high, Math.max(3, Math.floor(width / 90)));
    const unit = this.axes[this.store.values.axis];
    places.forEach((tick, n) => {
      const x = across.place(tick);
      const text = n === places.length - 1 ? `${shortNumber(tick)} ${unit}` : shortNumber(tick);
      pen.line([[x, lower], [x, lower + 3]], { stroke: colors.muted });
      const room = x + measure(text, 11) / 2 > width - 2;
      pen.text(room ? width - 2 : x, lower + 13, text, { size: 11, align: room ? "right" : "center", fill: colors.muted });
    });
  }

  /** What was logged, as it was: step by step, or from the lowest to the highest of each point. */
  #paintRough(pen, { line, number }, across, down, keep) {
    if (!line.rough) return;
    const low = line.raw.low ?? line.raw.value;
    const high = line.raw.high ?? line.raw.value;
    const points = [];
    line.places.forEach((one, n) => {
      if (one === null || low[n] === null || (this.logarithmic && low[n] <= 0)) return;
      const x = across.place(one);
      points.push([x, keep(down.place(low[n]))]);
      if (high[n] !== low[n]) points.push([x, keep(down.place(high[n]))]);
    });
    pen.line(points, { stroke: runStyle(number).color, thick: 1, opacity: 0.22 });
  }

  #paintLine(pen, { line, number, run }, across, down, keep) {
    const { color, dash, shape } = runStyle(number);
    const drawn = line.places.map((one, n) => [one, line.values[n]]).filter(([one, value]) => one !== null && value !== null && !(this.logarithmic && value <= 0));
    const points = drawn.map(([one, value]) => [across.place(one), keep(down.place(value))]);
    if (points.length === 1) markStrokes(shape, ...points[0], 3.6).forEach((one) => pen.line(one, { stroke: color, thick: 1.8 }));
    pen.line(points, { stroke: color, thick: 2, dash: this.runs.length > 1 ? dash : [] });
  }

  #paintMarks(pen, { marks, line, number }, across, down, colors) {
    const { color, dash, shape } = runStyle(number);
    const drawn = marks.places.map((one, n) => ({ x: one === null ? null : across.place(one), value: marks.values[n], low: marks.low?.[n] ?? null, high: marks.high?.[n] ?? null, n }))
      .filter(({ x, value }) => x !== null && value !== null && !(this.logarithmic && value <= 0));
    const best = marks.best.lastIndexOf(true);
    if (!line) pen.line(drawn.map(({ x, value }) => [x, down.place(value)]), { stroke: color, thick: 1.5, dash: this.runs.length > 1 ? dash : [], opacity: 0.8 });
    for (const { x, value, low, high, n } of drawn) {
      const y = down.place(value);
      if (low !== null && high !== null && !(this.logarithmic && low <= 0)) pen.line([[x, down.place(low)], [x, down.place(high)]], { stroke: color, thick: 1.2, opacity: 0.55 });
      pen.rect(x - 4.5, y - 4.5, 9, 9, { fill: colors.panel, radius: 4.5 });
      markStrokes(shape, x, y, 3.2).forEach((one) => pen.line(one, { stroke: color, thick: n === best ? 3 : 1.8 }));
      if (n === best) markStrokes("circle", x, y, 7).forEach((one) => pen.line(one, { stroke: color, thick: 1.2 }));
    }
  }

  /** What each run has at a place, or at its end: [{ number, label, texts }]. */
  #values() {
    const { at } = this.store.values;
    return this.traces.map(({ number, run, line, marks }) => {
      const both = line && marks;
      const texts = [
        line && this.#describe(both ? "training " : "", line, at, false),
        marks && this.#describe(both ? "validation " : "", marks, at, true),
      ];
      return { number, label: run.label, texts: texts.filter(Boolean) };
    }).filter(({ texts }) => texts.length);
  }

  /** A value of a line or of marks at a place; a line tells nothing beyond its ends, a mark says where it stands. */
  #describe(what, { places, values, low, high }, at, apart) {
    const shown = places.map((one, n) => (values[n] === null ? null : one));
    const last = shown.findLastIndex((one) => one !== null);
    if (last < 0) return null;
    const n = at === null ? last : nearestIndex(shown, at);
    const gap = Math.abs((shown[last] - shown.find((one) => one !== null)) / Math.max(1, last));
    if (!apart && at !== null && Math.abs(shown[n] - at) > gap + 1e-9) return `${what}– (${at > shown[n] ? "ended" : "began"} at ${this.#showPlace(shown[n])})`;
    const interval = apart && (low?.[n] ?? null) !== null && (high?.[n] ?? null) !== null ? ` (${showValue(low[n])} to ${showValue(high[n])})` : "";
    return `${what}${showValue(values[n])}${interval}${apart && at !== null && shown[n] !== at ? ` at ${this.#showPlace(shown[n])}` : ""}`;
  }

  #showPlace(place) {
    return this.store.values.axis === "minutes" ? show(place) : Math.round(place).toLocaleString("en");
  }

  #tell() {
    const { at, axis, locked } = this.store.values;
    const unit = this.axes[axis];
    const values = this.#values();
    const where = at === null ? "at the end" : `${this.#showPlace(at)} ${unit}${locked ? ", locked" : ""}`;
    const items = values.map(({ number, label, texts }) => [this.runs.length > 1 ? runName(label, number) : make("span", {}), make("b", {}, texts.join(", "))]);
    replace(this.readout, make("span", { class: "chart-where" }, where), items);
    const told = values.map(({ label, texts }) => `${this.runs.length > 1 ? `${label}: ` : ""}${texts.join(", ")}`).join("; ");
    const last = Math.max(0, this.stops.length - 1);
    this.slider.setAttribute("aria-valuemax", String(last));
    this.slider.setAttribute("aria-valuenow", String(at === null ? last : nearestIndex(this.stops, at) ?? 0));
    this.slider.setAttribute("aria-valuetext", `${where}: ${told || "nothing"}`);
  }
}
