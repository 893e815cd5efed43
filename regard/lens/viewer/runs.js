// Runs side by side: each has a color, a dash and a mark of its own, the same wherever it is shown, so that nobody
// needs the colors to tell them apart.

import { make, makeSvg, quote } from "./dom.js";
import { show } from "./number.js";

const COLORS = 7; // --run-0 to --run-6 in runs.css
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [12, 3, 2, 3, 2, 3], [1, 4]];
const GUIDES = [
  [3, 3],
  [8, 3],
  [1, 3],
  [8, 3, 1, 3],
];
const SHAPES = ["circle", "square", "diamond", "triangle", "cross", "plus", "drop"];

/** How the run of this number is drawn: { color, dash, shape }. Colors come again after seven, dashes one further. */
export function runStyle(number) {
  const around = Math.floor(number / COLORS);
  const color = getComputedStyle(document.documentElement)
    .getPropertyValue(`--run-${number % COLORS}`)
    .trim();
  return { color, dash: DASHES[(number + around) % DASHES.length], shape: SHAPES[number % SHAPES.length] };
}

/** A run's line and its mark, as a legend shows them; the colors follow the theme. */
export function swatch(number) {
  const { dash, shape } = runStyle(number);
  const line = makeSvg("line", {
    x1: 1,
    y1: 6,
    x2: 27,
    y2: 6,
    "stroke-width": 2,
    "stroke-dasharray": dash.join(" ") || null,
  });
  const mark = makeSvg("path", {
    d: traceMark(shape, 14, 6, 3.6),
    "stroke-width": 1.8,
    class: isOpen(shape) ? "open" : null,
  });
  return makeSvg(
    "svg",
    { class: `swatch run-${number % COLORS}`, width: 28, height: 12, viewBox: "0 0 28 12", "aria-hidden": "true" },
    line,
    mark,
  );
}

/** How the line of a formula is dashed. */
export function guideDash(number) {
  return GUIDES[number % GUIDES.length];
}

/** The name of what a formula says, behind its line. */
export function guideName(label, number) {
  const dashes = guideDash(number).join(" ");
  const line = makeSvg("line", { x1: 1, y1: 6, x2: 27, y2: 6, "stroke-dasharray": dashes });
  const size = { width: 28, height: 12, viewBox: "0 0 28 12" };
  const drawn = makeSvg("svg", { class: "swatch guide", ...size, "aria-hidden": "true" }, line);
  return make("span", { class: "run-name" }, drawn, quote(label));
}

/** A run's name behind its swatch. */
export function runName(label, number) {
  return make("span", { class: "run-name" }, swatch(number), quote(label));
}

/** A button a name: pressed while its series is shown. One click hides it, Shift and a click shows it alone. */
export function makeLegend(label, names, store) {
  const toggle = (chosen, alone) => {
    const hidden = new Set(store.values.hidden);
    if (alone) names.forEach((_, n) => (n === chosen ? hidden.delete(n) : hidden.add(n)));
    else if (!hidden.delete(chosen)) hidden.add(chosen);
    store.set({ hidden });
  };
  const buttons = names.map((name, n) =>
    make(
      "button",
      {
        type: "button",
        class: "run-key",
        "aria-pressed": "true",
        title: "Shift and a click shows it alone",
        onclick: (event) => toggle(n, event.shiftKey),
      },
      name,
    ),
  );
  store.watch(({ hidden }) =>
    buttons.forEach((button, n) => button.setAttribute("aria-pressed", String(!hidden.has(n)))),
  );
  return make("div", { class: "run-keys", role: "group", "aria-label": label }, buttons);
}

function isOpen(shape) {
  return shape === "cross" || shape === "plus";
}

/** The outline of a mark as strokes, each a list of points. */
export function markStrokes(shape, x, y, size) {
  const across = 1.2 * size;
  if (shape === "square")
    return [
      [
        [x - size, y - size],
        [x + size, y - size],
        [x + size, y + size],
        [x - size, y + size],
        [x - size, y - size],
      ],
    ];
  if (shape === "diamond")
    return [
      [
        [x, y - across],
        [x + across, y],
        [x, y + across],
        [x - across, y],
        [x, y - across],
      ],
    ];
  if (shape === "triangle")
    return [
      [
        [x, y - across],
        [x + across, y + size],
        [x - across, y + size],
        [x, y - across],
      ],
    ];
  if (shape === "drop")
    return [
      [
        [x, y + across],
        [x + across, y - size],
        [x - across, y - size],
        [x, y + across],
      ],
    ];
  if (shape === "cross")
    return [
      [
        [x - size, y - size],
        [x + size, y + size],
      ],
      [
        [x - size, y + size],
        [x + size, y - size],
      ],
    ];
  if (shape === "plus")
    return [
      [
        [x - across, y],
        [x + across, y],
      ],
      [
        [x, y - across],
        [x, y + across],
      ],
    ];
  return [
    Array.from({ length: 13 }, (_, n) => [
      x + size * Math.cos((n * Math.PI) / 6),
      y + size * Math.sin((n * Math.PI) / 6),
    ]),
  ];
}

function traceMark(shape, x, y, size) {
  return markStrokes(shape, x, y, size)
    .map((points) => `M${points.map((point) => point.map((one) => one.toFixed(2)).join(",")).join("L")}`)
    .join("");
}

/** What a table has under a name: files may name anything, and "constructor" isn't a measure of all runs. */
export function lookUp(table, name) {
  return Object.hasOwn(table, name) ? table[name] : undefined;
}

/** A fact of a run as people read it; units are those of regard/runs/account.py. */
export function formatFact(value, unit) {
  if (value === null || value === undefined) return "–";
  if (unit === "count") return value.toLocaleString("en");
  if (unit === "bytes") return formatBytes(value);
  if (unit === "seconds") return formatTime(value);
  if (unit === "share") return `${(100 * value).toFixed(1)} %`;
  if (unit === "tokens a second") return `${Math.round(value).toLocaleString("en")} tokens/s`;
  if (unit === "date") return formatDate(value);
  return unit === "digest" ? String(value).slice(0, 12) : String(value);
}

export function formatBytes(bytes) {
  const units = ["bytes", "kB", "MB", "GB", "TB"];
  const power = bytes < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3));
  return `${show(bytes / 1000 ** power, power ? 3 : 4)} ${units[power]}`;
}

/** 48 s, 2 min 5 s, 3 h 12 min. */
export function formatTime(seconds) {
  if (seconds < 60) return `${show(seconds, 2)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

export function formatDate(seconds) {
  const date = new Date(1000 * seconds);
  return Number.isNaN(date.getTime()) ? "–" : `${date.toISOString().slice(0, 16).replace("T", " ")} UTC`;
}

/** What is missing or damaged, run by run: notes are { run, text }. */
export function listNotes(notes, labels) {
  if (!notes.length) return null;
  const lines = notes.map(({ run, text }) =>
    make("li", { dir: "auto" }, labels.length > 1 ? [runName(labels[run], run), ": "] : null, text),
  );
  return make("div", { class: "run-notes", role: "note" }, make("ul", {}, lines));
}

/** A box that is closed until somebody opens it; `fill` makes what is in it. */
export function openBox(title, fill) {
  const box = make("details", { class: "run-box" }, make("summary", {}, title));
  // what nobody opens isn't made
  box.addEventListener("toggle", () => box.open && box.childElementCount === 1 && box.append(...[fill()].flat()));
  return box;
}
