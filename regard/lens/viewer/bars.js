// What the model predicted: one line a token with the probability as a bar, and for one of them the alternatives.

import { answers, placeOf, readable, tokenOf } from "./axis.js";
import { make, replace } from "./dom.js";
import { percent, plural, show } from "./number.js";
import { makeBar, makePanel, makeShares, markOption, rove, WORD } from "./panel.js";
import { readColors, savePng, saveSvg, shorten } from "./pen.js";
import { fileName, saveText, toCsv } from "./save.js";
import { makeTable, scrollBox } from "./table.js";

const DRAWN = 200; // lines of a picture that is saved

export class Bars {
  #store;
  #predictions;
  #box = make("div", { class: "predictions", role: "listbox", "aria-label": "Predicted tokens" });
  #detail = make("div", { class: "alternatives" });
  #panel;

  constructor(store, predictions, axis, words) {
    this.#store = store;
    this.#predictions = predictions.map((each) => ({
      ...each,
      label: wordOf(each.token),
      read: axis?.tokens[each.position] ?? null, // what stands where it was predicted
      probability: Math.exp(each.log_probability ?? NaN),
    }));
    this.words = words;
    const saves = {
      CSV: () => this.#saveCsv(),
      PNG: () => savePng(this.#picture()),
      SVG: () => saveSvg(this.#picture()),
    };
    this.#panel = makePanel({ title: "Predictions", saves, table: () => this.#table() });
    this.element = this.#panel.element;
    this.element.classList.add("bars");
    replace(
      this.#box,
      this.#predictions.map((each, n) => this.#option(each, n)),
    );
    this.#panel.body.append(make("p", { class: "note" }, this.#overview()), this.#detail, this.#box);
    rove(
      this.#box,
      () => 1,
      (option) => this.#point(Number(option.dataset.n), true),
    );
    this.#box.addEventListener("pointerover", (event) => event.pointerType !== "touch" && this.#pointAt(event, false));
    this.#box.addEventListener(
      "pointerleave",
      () => !store.values.locked && store.set({ row: null, column: null, predicted: null }),
    );
    this.#box.addEventListener("click", (event) => this.#pointAt(event, true));
    store.watch((values, changed) => {
      if (["row", "weights", "predicted", "locked"].some((name) => changed.has(name))) this.#mark();
    });
  }

  #option({ label, probability, rank, position }, n) {
    const said = `${label}, ${percent(probability)}, rank ${rank}`;
    const numbers = [
      make("span", { class: "share" }, percent(probability)),
      make("span", { class: "rank" }, rank > 1 ? `#${rank}` : ""),
    ];
    return make(
      "div",
      { role: "option", "data-n": n, "aria-label": said, title: position === null ? null : `position ${position}` },
      make("bdi", { class: "word" }, shorten(label, WORD, 13)),
      makeBar(probability),
      numbers,
    );
  }

  #pointAt(event, lock) {
    const option = event.target.closest('[role="option"]');
    if (option) this.#point(Number(option.dataset.n), lock);
  }

  /** Point at a prediction: where the map's rows are these tokens, its row is pointed at too. */
  #point(n, lock) {
    const { weights, locked } = this.#store.values;
    if (locked && !lock) return;
    const { position } = this.#predictions[n];
    const row = weights && answers(weights.rowAxis) && position !== null ? placeOf(weights.rowAxis, position) : null;
    this.#store.set({
      predicted: n,
      ...(row === null ? {} : { row, column: null }),
      ...(lock && row !== null ? { locked: true } : {}),
    });
  }

  /** The prediction that is pointed at, here or as a row elsewhere. */
  get #current() {
    const { weights, row, predicted } = this.#store.values;
    if (row === null || !weights || !answers(weights.rowAxis)) return predicted;
    if (predicted !== null && placeOf(weights.rowAxis, this.#predictions[predicted].position) === row) return predicted;
    const [first, end] = weights.rowAxis.spans?.[row] ?? [tokenOf(weights.rowAxis, row), row + 1];
    const found = this.#predictions.findIndex(({ position }) => first <= position && position < end);
    return found < 0 ? null : found;
  }

  #mark() {
    const current = this.#current;
    const options = this.#box.children;
    markOption(this.#box, current === null ? null : options[current]);
    if (current !== null) keepInSight(this.#box, options[current]);
    const least = () => this.#predictions.reduce((a, b) => (b.probability < a.probability ? b : a));
    replace(this.#detail, this.#alternatives(this.#predictions[current] ?? least(), current === null));
  }

  #overview() {
    const total = this.#predictions.reduce((sum, { log_probability: value }) => sum + (value ?? NaN), 0);
    const perplexity = Math.exp(-total / this.#predictions.length);
    const count = plural(this.#predictions.length, "answer");
    return `${count}, log-probability ${show(total)} in all, perplexity ${show(perplexity)}`;
  }

  /** As high for one prediction as for another: the list below must not move away from the pointer. */
  #alternatives({ label, position, read, rank, entropy, log_probability: logarithm, alternatives }, least) {
    const shares = alternatives.map(([token, share]) => ({ name: wordOf(token), share, lit: wordOf(token) === label }));
    const place = [
      position === null ? " of the whole text" : ` at position ${position}`,
      read === null ? "" : `, “${wordOf(read)}”`,
      least ? ": the least likely" : "",
    ].join("");
    const list = makeShares(shares);
    list.style.minHeight = `${24 * Math.max(...this.#predictions.map((each) => each.alternatives.length))}px`;
    return [
      make("p", {}, make("b", {}, make("bdi", {}, shorten(label, 2 * WORD, 13, 700))), place),
      make("p", { class: "muted" }, `log-probability ${show(logarithm)} · rank ${rank} · entropy ${show(entropy)}`),
      list,
    ];
  }

  #rows() {
    const most = Math.max(0, ...this.#predictions.map(({ alternatives }) => alternatives.length));
    const more = Array.from({ length: most }, (_, n) => [`alternative ${n + 1}`, `probability ${n + 1}`]).flat();
    const rows = this.#predictions.map((each) => {
      const others = Array.from({ length: most }, (_, n) => each.alternatives[n] ?? [null, null]).flat();
      return [each.position, each.token, each.probability, each.log_probability, each.rank, each.entropy, ...others];
    });
    return { columns: ["position", "token", "probability", "log-probability", "rank", "entropy", ...more], rows };
  }

  #table() {
    return scrollBox(
      "Numbers of predictions",
      makeTable({ ...this.#rows(), caption: "Predicted tokens and alternatives", digits: 4 }),
    );
  }

  #saveCsv() {
    const { columns, rows } = this.#rows();
    saveText(fileName(["predictions", ...this.words()], "csv"), toCsv([columns, ...rows]), "text/csv");
  }

  #picture() {
    const colors = readColors();
    const drawn = this.#predictions.slice(0, DRAWN);
    const draw = (pen) =>
      drawn.forEach(({ label, probability, rank }, n) => {
        const y = 18 + 20 * n;
        pen.text(130, y, shorten(label, 118, 12), { align: "right", fill: colors.ink });
        pen.rect(138, y - 6, 220, 12, { fill: colors.soft });
        pen.rect(138, y - 6, 220 * (probability || 0), 12, { fill: colors.accent });
        pen.text(410, y, percent(probability), { size: 11, align: "right", fill: colors.ink });
        if (rank > 1) pen.text(418, y, `#${rank}`, { size: 11, fill: colors.muted });
      });
    return { words: ["predictions", ...this.words()], width: 470, height: 20 * drawn.length + 16, draw };
  }
}

/** A token without the mark of a word's beginning. */
function wordOf(token) {
  return readable(token.replace(/^[▁Ġ]/u, "") || token);
}

/** Scroll the box, not the page. */
function keepInSight(box, option) {
  const [top, bottom] = [option.offsetTop - box.offsetTop, option.offsetTop - box.offsetTop + option.offsetHeight];
  if (top < box.scrollTop) box.scrollTop = top;
  else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
}
