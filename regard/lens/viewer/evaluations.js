// What was measured: { runs, goals, measures: [{ name, title, rising }], rows: [{ run, step, minutes, chosen, values:
// { name: [value, low, high] }, counts }], winners: { name: [run, …] }, tests, note }.

import { make, quote } from "./dom.js";
import { plural, show } from "./number.js";
import { define } from "./registry.js";
import { formatDate, lookUp, openBox, runName } from "./runs.js";
import { fileName, saveText, toCsv } from "./save.js";
import { scrollBox } from "./table.js";

/** A value with its interval, and a star where it is the best; the star is text, for those who only hear it too. */
function measureCell(found, star) {
  if (!found || found[0] === null) return make("td", { class: "number" }, "–");
  const [value, low, high] = found;
  const between =
    low !== null && high !== null ? make("span", { class: "interval" }, `${show(low, 3)} to ${show(high, 3)}`) : null;
  const mark = star
    ? [make("span", { "aria-hidden": "true", class: "star" }, "★ "), make("span", { class: "unseen" }, `${star}: `)]
    : null;
  return make("td", { class: star ? "number won" : "number" }, mark, show(value, 4), between);
}

function measureHead({ title, rising }) {
  const arrow = rising === null || rising === undefined ? "" : rising ? " ↑" : " ↓";
  const told =
    rising === null || rising === undefined
      ? null
      : make("span", { class: "unseen" }, rising ? "more is better" : "less is better");
  return make("th", { scope: "col", class: "number" }, title, make("span", { "aria-hidden": "true" }, arrow), told);
}

/** A table of rows: its first columns are given as { name, cell(row), numeric }, then comes a column a measure. */
function measureTable(caption, first, measures, rows, star, lit = () => false) {
  const there = measures.filter(({ name }) => rows.some(({ values }) => (lookUp(values, name)?.[0] ?? null) !== null));
  const head = [
    ...first.map(({ name, numeric }) => make("th", { scope: "col", class: numeric ? "number" : null }, name)),
    ...there.map(measureHead),
  ];
  const body = rows.map((row) =>
    make(
      "tr",
      { class: lit(row) ? "chosen" : null },
      first.map(({ cell, numeric }) => make("td", { class: numeric ? "number" : null }, cell(row))),
      there.map(({ name }) => measureCell(lookUp(row.values, name), star(row, name))),
    ),
  );
  const table = make(
    "table",
    { class: "measures" },
    make("caption", { class: "unseen" }, caption),
    make("thead", {}, make("tr", {}, head)),
    make("tbody", {}, body),
  );
  return scrollBox(caption, table);
}

const byStep = { name: "step", numeric: true, cell: ({ step }) => step.toLocaleString("en") };
const byMinutes = { name: "minutes", numeric: true, cell: ({ minutes }) => show(minutes) };

/** The evaluations of one run, and which of them was the best. */
function listEvaluations(data, run) {
  const rows = data.rows.filter((row) => row.run === run);
  const star = (row, name) => (row.chosen && name === data.goals[run] ? "best" : null);
  const chosen = { name: "", cell: (row) => (row.chosen ? make("span", { class: "star" }, "best") : "") };
  return measureTable(
    `Evaluations of ${data.runs[run]}`,
    [byStep, byMinutes, chosen],
    data.measures,
    rows,
    star,
    (row) => row.chosen,
  );
}

/** How many sentences, predictions, … were measured, as far as all evaluations say the same. */
function countSamples(rows) {
  const same = Object.entries(rows[0].counts).filter(([name, count]) =>
    rows.every(({ counts }) => lookUp(counts, name) === count),
  );
  return same.map(([name, count]) => `${count.toLocaleString("en")} ${name}`).join(", ");
}

function drawValidation(place, data) {
  const several = new Set(data.rows.map(({ run }) => run)).size > 1;
  const named = { name: "run", cell: ({ run }) => runName(data.runs[run], run) };
  if (several) {
    const star = (row, name) => (lookUp(data.winners, name)?.includes(row.run) ? "best of all" : null);
    place.append(
      make("h3", {}, "The best of each run"),
      measureTable(
        "The best of each run",
        [named, byStep, byMinutes],
        data.measures,
        data.rows.filter(({ chosen }) => chosen),
        star,
      ),
    );
  }
  data.runs.forEach((label, run) => {
    const count = data.rows.filter((row) => row.run === run).length;
    if (!count) return;
    if (several)
      place.append(openBox([plural(count, "evaluation"), " of ", quote(label)], () => listEvaluations(data, run)));
    else place.append(listEvaluations(data, run));
  });
}

function drawTests(place, data) {
  const first = [
    ...(data.runs.length > 1 ? [{ name: "run", cell: ({ run }) => runName(data.runs[run], run) }] : []),
    { name: "on", cell: (row) => quote([row.data, ...row.with.map((other) => `with ${other}`)].join(", ")) },
    byStep,
    { name: "measured", cell: ({ time }) => formatDate(time) },
  ];
  place.append(make("h3", {}, "Measured afterwards"), make("p", { class: "note" }, "What regard eval --record found."));
  place.append(measureTable("Measured afterwards", first, data.measures, data.tests, () => null));
}

function saveEvaluations(data) {
  const names = data.measures.map(({ name }) => name);
  const columns = [
    "run",
    "on",
    "step",
    "minutes",
    "best",
    ...names.flatMap((name) => [name, `${name}_low`, `${name}_high`]),
  ];
  const row = (one, on) => [
    data.runs[one.run],
    on,
    one.step,
    one.minutes ?? null,
    one.chosen ? "best" : "",
    ...names.flatMap((name) => lookUp(one.values, name) ?? [null, null, null]),
  ];
  const rows = [...data.rows.map((one) => row(one, "validation")), ...data.tests.map((one) => row(one, one.data))];
  saveText(fileName([...data.runs, "evaluations"], "csv"), toCsv([columns, ...rows]), "text/csv");
}

function drawEvaluations(place, { data }) {
  place.id = "evaluations";
  const some = data.rows.length + data.tests.length > 0;
  const save = make("button", { type: "button", class: "quiet", onclick: () => saveEvaluations(data) }, "CSV");
  place.append(make("div", { class: "part-head" }, make("h2", {}, "Evaluations"), some ? save : null));
  if (!some) place.append(make("p", { class: "note" }, "Nothing was evaluated yet."));
  const counted = data.rows.length ? countSamples(data.rows) : "";
  const told = data.rows.length ? "On validation, in training; in small, 95 % intervals." : "";
  const note = [told, counted && `Each time ${counted}.`, data.note].filter(Boolean);
  if (note.length) place.append(make("p", { class: "note" }, note.join(" ")));
  if (data.rows.length) drawValidation(place, data);
  if (data.tests.length) drawTests(place, data);
}

define("evaluations", drawEvaluations);
