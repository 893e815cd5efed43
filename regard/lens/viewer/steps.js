// How long a model thought at each token: [{ name, axis, counts }], a number above each token of the axis, and a bar
// that is as high as its share of the largest number.

import { makeAxis } from "./axis.js";
import { make } from "./dom.js";
import { show } from "./number.js";

const TALLEST = 24; // pixels of a bar

export function makeSteps({ steps = [], axes }) {
  return steps.map(({ name, axis, counts }) => {
    const largest = Math.max(...counts, 1);
    const mean = counts.reduce((sum, count) => sum + count, 0) / counts.length;
    const { labels } = makeAxis(axis, axes[axis], counts.length, "tokens");
    const items = counts.map((count, n) => {
      const bar = make("span", { class: "bar", style: { height: `${(TALLEST * count) / largest}px` } });
      return make("li", {}, make("b", {}, show(count, 2)), bar, make("bdi", {}, labels[n]));
    });
    return make(
      "section",
      { class: "steps", "aria-label": `${name}: steps at each token` },
      make("p", { class: "note" }, `${name}, ${show(mean, 2)} on the average`),
      make("ol", { dir: "auto" }, items),
    );
  });
}
