// A panel: a heading, what can be downloaded, the picture, and the numbers behind it as a table that opens on demand.

import { make, replace, uniqueId } from "./dom.js";
import { percent } from "./number.js";
import { shorten } from "./pen.js";

export const WORD = 90; // pixels of a name beside its bar

/**
 * { title, saves: { CSV: act, … }, table: () => element, tools } makes { element, body, refresh }.
 * The table is made when it is opened; refresh() makes it again if it is open.
 */
export function makePanel({ title, saves = {}, table = null, tools = [] }) {
  const id = uniqueId("panel");
  const body = make("div", { class: "panel-body" });
  const head = make(
    "div",
    { class: "panel-head" },
    make("h2", { id }, title),
    tools,
    make("div", { class: "saves" }, makeSaves(title.toLowerCase(), saves)),
  );
  const element = make("section", { class: "panel", "aria-labelledby": id }, head, body);
  const details = table && makeDetails(title, table);
  if (details) element.append(details.element);
  return { element, body, head, refresh: details?.refresh ?? (() => {}) };
}

/** A button for each form in which a drawing can be saved: { CSV: act, … }. */
export function makeSaves(title, saves) {
  return Object.entries(saves).map(([name, act]) => {
    const told = { "aria-label": `Save ${title} as ${name}`, "data-save": name };
    return make("button", { type: "button", class: "quiet", onclick: act, ...told }, name);
  });
}

function makeDetails(title, table) {
  const place = make("div", {});
  const element = make(
    "details",
    { class: "numbers" },
    make("summary", {}, "Numbers", make("span", { class: "unseen" }, ` of ${title.toLowerCase()}`)),
    place,
  );
  const refresh = () => element.open && replace(place, table());
  element.addEventListener("toggle", refresh);
  return { element, refresh };
}

/** A row of buttons of which one is pressed: choices are { value: label }. */
export function makeSwitch(label, choices, value, choose) {
  const buttons = Object.entries(choices).map(([key, text]) =>
    make(
      "button",
      { type: "button", "data-value": key, "aria-pressed": String(key === value), onclick: () => choose(key) },
      text,
    ),
  );
  const element = make("div", { class: "switch", role: "group", "aria-label": label }, buttons);
  const mark = (key) =>
    buttons.forEach((button) => button.setAttribute("aria-pressed", String(button.dataset.value === key)));
  return { element, mark };
}

/** A choice from a list, with its name beside it. */
export function makeSelect(label, choices, value, choose) {
  const options = Object.entries(choices).map(([key, text]) =>
    make("option", { value: key, selected: key === value }, text),
  );
  const select = make("select", {}, options);
  select.addEventListener("change", () => choose(select.value));
  return { element: make("label", { class: "choice" }, make("span", {}, label), select), select };
}

/**
 * Options of a listbox by arrow keys: one of them can be reached by Tab, and what has the focus is chosen.
 * across() says how many stand in a line.
 */
export function rove(box, across, choose) {
  box.addEventListener("keydown", (event) => {
    const options = [...box.querySelectorAll('[role="option"]')];
    const place = options.indexOf(document.activeElement);
    const steps = {
      ArrowRight: 1,
      ArrowLeft: -1,
      ArrowDown: across(),
      ArrowUp: -across(),
      Home: -place,
      End: options.length - 1 - place,
    };
    if (place < 0 || !(event.key in steps) || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    const next = options[place + steps[event.key]];
    if (!next) return;
    choose(next);
    markOption(box, next);
    next.focus();
  });
}

/** Mark the option that is chosen; the first can be reached if none is. */
export function markOption(box, chosen) {
  const options = [...box.querySelectorAll('[role="option"]')];
  for (const option of options) {
    option.setAttribute("aria-selected", String(option === chosen));
    option.tabIndex = option === (chosen ?? options[0]) ? 0 : -1;
  }
}

/** Names with their shares, as a list of bars: [{ name, share, lit }]. */
export function makeShares(shares) {
  const lines = shares.map(({ name, share, lit }) => {
    const word = make("bdi", { class: "word" }, shorten(name, WORD, 13));
    return make(
      "li",
      { class: lit ? "lit" : null },
      word,
      makeBar(share),
      make("span", { class: "share" }, percent(share)),
    );
  });
  return make("ol", { class: "shares" }, lines);
}

/** A share of 1 as a bar; the number stands beside it. */
export function makeBar(share) {
  const width = `${100 * Math.min(1, share || 0)}%`;
  return make("span", { class: "bar", "aria-hidden": "true" }, make("span", { class: "fill", style: { width } }));
}
