// One chart of a quantity over steps, tokens or minutes, for all runs: what was logged as a line, what evaluations
// measured as marks. The chart is a slider for keys and screen readers: arrows go from point to point, and the text of
// its value tells what every run has there. Below it stands the same for eyes, then the numbers behind it.

import { make, replace, uniqueId } from "./dom.js";
import { show, showInterval, showValue } from "./number.js";
import { makeSaves } from "./panel.js";
import { fitCanvas, readColors, savePng, saveSvg } from "./pen.js";
import { LEGEND_LINE, bounds, paintLegend, paintPlot } from "./plot.js";
import { lookUp, openBox, runName } from "./runs.js";
import { fileName, saveText, toCsv } from "./save.js";
import { smoothValues } from "./scale.js";
import { listenSlider, nearestIndex } from "./slider.js";
import { makeTable, scrollBox } from "./table.js";
import { watchTheme } from "./theme.js";

const HEIGHT = 210;
const PICTURE = { width: 640, height: 320, title: 28 }; // of a saved one: its legend has a line a run

function empty(values) {
  return values.map(() => null);
}

export class Chart {
  /** axes: { step: "steps", … }; smoothing: { usual: 50, … }, the points of a line over the reach of its mean. */
  constructor(panel, runs, store, { axes, smoothing }) {
    Object.assign(this, { panel, runs, store, axes, smoothing, traces: [], stops: [], ends: { low: 0, high: 1 } });
    this.positive = runs.every(({ series, measures }) =>
      [lookUp(series, panel.name), lookUp(measures, panel.name)].every(
        (one) => !one || one.value.every((value) => value === null || value > 0),
      ),
    );
    this.logarithmic = panel.logarithmic && this.positive;
    const id = uniqueId("chart");
    this.canvas = make("canvas", {});
    const told = { role: "slider", tabindex: "0", "aria-labelledby": id, "aria-valuemin": "0" };
    this.slider = make("div", { class: "plot", ...told }, this.canvas);
    this.readout = make("div", { class: "chart-values", "aria-hidden": "true" });
    const parts = [this.#makeHead(id), this.slider, this.readout, this.#makeNumbers()];
    this.element = make("figure", { class: "chart" }, parts);
    this.#listen();
  }

  /** Draw for the first time, once the chart is on the page, and again whenever something changes. */
  start() {
    new ResizeObserver(() => this.#draw()).observe(this.slider);
    this.store.watch(() => this.#update());
    watchTheme(() => this.#draw());
  }

  #makeHead(id) {
    const saves = {
      CSV: () =>
        saveText(fileName(["curves", this.panel.title], "csv"), toCsv([this.#columns(), ...this.#rows()]), "text/csv"),
      PNG: () => savePng(this.#picture()),
      SVG: () => saveSvg(this.#picture()),
    };
    const title = make("h3", { id, dir: "auto" }, this.panel.title);
    const scale = this.positive ? this.#makeScaleButton() : null;
    const tools = make("div", { class: "chart-tools" }, scale, makeSaves(this.panel.title, saves));
    return make("div", { class: "part-head" }, title, tools);
  }

  #makeScaleButton() {
    const label = `Logarithmic axis for ${this.panel.title}`;
    const told = { "aria-label": label, "aria-pressed": String(this.logarithmic) };
    const button = make("button", { type: "button", class: "quiet", ...told }, "log");
    button.addEventListener("click", () => {
      this.logarithmic = !this.logarithmic;
      button.setAttribute("aria-pressed", String(this.logarithmic));
      this.#draw();
    });
    return button;
  }

  #columns() {
    return ["run", "what", "step", "tokens", "minutes", this.panel.name, "low", "high"];
  }

  /** Each point of each run that has a value. */
  #rows() {
    const list = (run, what, { step, tokens, minutes }, series) =>
      (series?.value ?? []).map((value, n) => {
        const [low, high] = [series.low?.[n] ?? null, series.high?.[n] ?? null];
        return [run.label, what, step[n], tokens[n], minutes[n], value, low, high];
      });
    const { name } = this.panel;
    const rows = this.runs.flatMap((run) => [
      ...list(run, "training", run.logged, lookUp(run.series, name)),
      ...list(run, "validation", run.evaluated, lookUp(run.measures, name)),
    ]);
    return rows.filter((row) => row[5] !== null);
  }

  #makeNumbers() {
    const { title } = this.panel;
    const table = () => makeTable({ columns: this.#columns(), rows: this.#rows(), caption: title });
    const hidden = make("span", { class: "unseen" }, ` of ${title}`);
    return openBox(["Numbers", hidden], () => scrollBox(`${title}: numbers`, table()));
  }

  #listen() {
    const { slider, store } = this;
    const seek = (event) => this.across?.value(event.clientX - slider.getBoundingClientRect().left) ?? null;
    listenSlider(slider, store, { stops: () => this.stops, find: (at) => nearestIndex(this.stops, at), seek });
  }

  /** What is drawn of each run that is shown: its line, the line's rough edges, and its marks. */
  #collect() {
    const { axis, hidden, smoothing } = this.store.values;
    const { name, noisy } = this.panel;
    const found = [];
    this.runs.forEach((run, number) => {
      const [logged, measured] = [lookUp(run.series, name), lookUp(run.measures, name)];
      if (hidden.has(number) || (!logged && !measured)) return;
      const share = this.smoothing[smoothing];
      const reach = logged && noisy && share ? Math.floor(logged.value.length / share) : 0;
      const line = logged && {
        places: run.logged[axis],
        values: smoothValues(logged.value, reach),
        low: logged.low ?? logged.value,
        high: logged.high ?? logged.value,
        rough: reach > 0 || run.steps > 1,
      };
      const marks = measured && {
        places: run.evaluated[axis],
        values: measured.value,
        low: measured.low ?? empty(measured.value),
        high: measured.high ?? empty(measured.value),
        best: run.best.lastIndexOf(true),
      };
      found.push({ number, run, line, marks });
    });
    return found;
  }

  #update() {
    const { axis, hidden } = this.store.values;
    this.traces = this.#collect();
    const places = this.traces.flatMap(({ line, marks }) => [...(line?.places ?? []), ...(marks?.places ?? [])]);
    this.stops = [...new Set(places.filter((place) => place !== null))].sort((a, b) => a - b);
    // all charts go from the same place to the same place, so that one can be read below the other
    const shown = this.runs.filter((_, number) => !hidden.has(number));
    const [low, high] = bounds(shown.flatMap((run) => [...run.logged[axis], ...run.evaluated[axis]])) ?? [0, 1];
    this.ends = { low, high };
    this.#draw();
    this.#tell();
  }

  #describeChart(at) {
    const { axis, locked } = this.store.values;
    const { traces, ends, logarithmic } = this;
    return { traces, ends, unit: this.axes[axis], several: this.runs.length > 1, logarithmic, at, locked };
  }

  #draw() {
    const width = Math.floor(this.slider.clientWidth);
    if (!width) return;
    const pen = fitCanvas(this.canvas, width, HEIGHT);
    this.across = paintPlot(pen, this.#describeChart(this.store.values.at), width, HEIGHT, 0);
  }

  /** The chart by itself, for a file: with its title, and a legend where there are several runs. */
  #picture() {
    const { width, height, title } = PICTURE;
    const listed = this.runs.length > 1 ? this.traces : [];
    const draw = (pen) => {
      pen.text(12, 16, this.panel.title, { size: 14, weight: 600, fill: readColors().ink });
      paintPlot(pen, this.#describeChart(null), width, height, title);
      paintLegend(
        pen,
        listed.map(({ number, run }) => ({ number, label: run.label })),
        width,
        title + height,
      );
    };
    const whole = title + height + LEGEND_LINE * listed.length + 6;
    return { words: ["curves", this.panel.title], width, height: whole, draw };
  }

  /** A value of a line or of marks at a place; a line tells nothing beyond its ends, a mark says where it stands. */
  #describe(what, part, apart) {
    const { at } = this.store.values;
    const places = part.places.map((place, n) => (part.values[n] === null ? null : place));
    const last = places.findLastIndex((place) => place !== null);
    if (last < 0) return null;
    const n = at === null ? last : nearestIndex(places, at);
    const value = showValue(part.values[n]);
    const where = this.#showPlace(places[n]);
    if (apart) {
      const interval = showInterval(part.low[n], part.high[n]);
      return `${what}${value}${interval}${at === null || places[n] === at ? "" : ` at ${where}`}`;
    }
    const gap = (places[last] - places.find((place) => place !== null)) / Math.max(1, last);
    if (at !== null && Math.abs(places[n] - at) > gap + 1e-9) {
      return `${what}– (${at > places[n] ? "ended" : "began"} at ${where})`;
    }
    return `${what}${value}`;
  }

  #showPlace(place) {
    return this.store.values.axis === "minutes" ? show(place) : Math.round(place).toLocaleString("en");
  }

  /** What each run has at the place that is pointed at, or at its end. */
  #tell() {
    const { at, axis, locked } = this.store.values;
    const several = this.runs.length > 1;
    const where = at === null ? "at the end" : `${this.#showPlace(at)} ${this.axes[axis]}${locked ? ", locked" : ""}`;
    const values = this.traces.map(({ number, run, line, marks }) => {
      const both = line && marks;
      const texts = [
        line && this.#describe(both ? "training " : "", line, false),
        marks && this.#describe(both ? "validation " : "", marks, true),
      ];
      return { number, label: run.label, text: texts.filter(Boolean).join(", ") };
    });
    const told = values.filter(({ text }) => text);
    const lines = told.map(({ number, label, text }) => [
      several ? runName(label, number) : make("span", {}),
      make("b", {}, text),
    ]);
    replace(this.readout, make("span", { class: "chart-where" }, where), lines);
    const heard = told.map(({ label, text }) => (several ? `${label}: ${text}` : text)).join("; ");
    const last = Math.max(0, this.stops.length - 1);
    this.slider.setAttribute("aria-valuemax", String(last));
    this.slider.setAttribute("aria-valuenow", String(at === null ? last : (nearestIndex(this.stops, at) ?? 0)));
    this.slider.setAttribute("aria-valuetext", `${where}: ${heard || "nothing"}`);
  }
}
