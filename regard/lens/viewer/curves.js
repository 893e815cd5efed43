// Curves of runs: { runs: [{ label, steps, logged, series, evaluated, measures, best }, …], panels: [{ name, title,
// logarithmic, noisy }, …], note }. regard/lens/curves.py says what is in a run. One chart a panel; all share the run
// that is hidden, the axis and the place that is pointed at: hover previews, a click or Enter locks, Esc clears.

import { Chart } from "./chart.js";
import { make } from "./dom.js";
import { plural } from "./number.js";
import { define } from "./registry.js";
import { makeLegend, runName } from "./runs.js";
import { Store } from "./store.js";

const AXES = { step: "steps", tokens: "tokens", minutes: "minutes" };
const SMOOTHING = { off: 0, usual: 50, strong: 12 }; // points of a curve over the reach of its running mean

function chooser(label, options, chosen, act) {
  const list = make(
    "select",
    { onchange: (event) => act(event.target.value) },
    options.map(([value, text]) => make("option", { value, selected: value === chosen }, text)),
  );
  return make("label", { class: "curve-choice" }, make("span", {}, label), list);
}

function explainPoints(runs) {
  const thinned = runs.filter(({ steps }) => steps > 1);
  if (!thinned.length) return "Every step is drawn. Faint: as it was logged; strong: its running mean.";
  const counts = [...new Set(thinned.map(({ steps }) => steps))].sort((a, b) => a - b);
  const told = counts.map((count) => plural(count, "step")).join(" or ");
  return `A point is the mean of up to ${told}; faint: from the lowest to the highest of them.`;
}

function drawCurves(place, { data }) {
  const { runs, panels } = data;
  place.id = "curves";
  const there = Object.keys(AXES).filter((axis) =>
    runs.some((run) => [...run.logged[axis], ...run.evaluated[axis]].some((one) => one !== null)),
  );
  const store = new Store({ axis: there[0] ?? "step", smoothing: "usual", hidden: new Set(), at: null, locked: false });
  const controls = make(
    "div",
    { class: "curve-choices" },
    chooser(
      "Over",
      there.map((axis) => [axis, AXES[axis]]),
      store.values.axis,
      (axis) => store.set({ axis, at: null, locked: false }),
    ),
    chooser(
      "Smoothing",
      Object.keys(SMOOTHING).map((name) => [name, name]),
      "usual",
      (smoothing) => store.set({ smoothing }),
    ),
  );
  place.append(make("div", { class: "part-head" }, make("h2", {}, "Curves"), panels.length ? controls : null));
  if (!panels.length) {
    place.append(make("p", { class: "note" }, "Nothing was trained here yet, so there are no curves."));
    return;
  }
  const logged = runs.some((run) => run.logged.step.length);
  const dots = runs.some((run) => run.evaluated.step.length)
    ? "Marks are evaluations, their whiskers 95 % intervals; a ring is around each run's best."
    : "";
  place.append(
    make("p", { class: "note" }, [logged && explainPoints(runs), dots, data.note].filter(Boolean).join(" ")),
  );
  if (runs.length > 1) {
    const names = runs.map(({ label }, run) => runName(label, run));
    place.append(makeLegend("Runs that are shown", names, store));
  }
  const grid = make("div", { class: "charts" });
  place.append(grid);
  for (const panel of panels) {
    const chart = new Chart(panel, runs, store, { axes: AXES, smoothing: SMOOTHING });
    grid.append(chart.element);
    chart.start();
  }
}

define("curves", drawCurves);
