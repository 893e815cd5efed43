// The facts of runs, side by side: { runs: [label, …], states, facts: [{ name, unit, values }, …], notes, made,
// version }.

import { make, quote } from "./dom.js";
import { plural } from "./number.js";
import { define } from "./registry.js";
import { formatDate, formatFact, listNotes, runName } from "./runs.js";
import { fileName, saveText, toCsv } from "./save.js";
import { scrollBox } from "./table.js";

const SIGNS = { done: "✓", stopped: "‖", training: "▶", damaged: "✕", imported: "↓", saved: "•" };
const CONTENTS = {
  curves: "Curves",
  evaluations: "Evaluations",
  samples: "Samples",
  looks: "Attention",
  settings: "Settings",
};

function stateBadge(state, text) {
  return make(
    "span",
    { class: `run-state ${state}` },
    make("span", { "aria-hidden": "true" }, `${SIGNS[state] ?? "•"} `),
    text,
  );
}

function factCell({ name, unit, values }, run, data) {
  const value = values[run];
  if (name === "state") return stateBadge(data.states[run], String(value));
  const text = formatFact(value, unit);
  return unit === "digest" ? make("code", { title: value }, text) : quote(text);
}

/** One run: a name and a value a line, in as many columns as there is room for. */
function listFacts(data) {
  const pairs = data.facts.map((fact) =>
    make("div", {}, make("dt", {}, fact.name), make("dd", {}, factCell(fact, 0, data))),
  );
  return make("dl", { class: "run-facts" }, pairs);
}

/** Several: a row a fact, and a column a run. */
function tableFacts(data) {
  const heads = data.runs.map((label, run) => make("th", { scope: "col" }, runName(label, run)));
  const rows = data.facts.map((fact) => {
    const cells = data.runs.map((_, run) =>
      make("td", { class: typeof fact.values[run] === "number" ? "number" : null }, factCell(fact, run, data)),
    );
    return make("tr", {}, make("th", { scope: "row" }, fact.name), cells);
  });
  const table = make(
    "table",
    { class: "runs-beside" },
    make("caption", { class: "unseen" }, "Facts of the runs"),
    make("thead", {}, make("tr", {}, make("td", {}), heads)),
    make("tbody", {}, rows),
  );
  return scrollBox("Facts of the runs", table);
}

/** Links to the parts of the page, as far as there are any. */
function listContents() {
  const links = Object.entries(CONTENTS).map(([kind, name]) => {
    const part = document.querySelector(`section.figure.${kind}`);
    return part && make("li", {}, make("a", { href: `#${kind}`, onclick: (event) => scrollTo(event, part) }, name));
  });
  return make("nav", { class: "report-parts", "aria-label": "Contents" }, make("ul", {}, links));
}

function scrollTo(event, part) {
  event.preventDefault(); // a page inside another one has no address of its own
  part.scrollIntoView();
  part.querySelector("h2, h3")?.setAttribute("tabindex", "-1");
  part.querySelector("h2, h3")?.focus({ preventScroll: true });
}

async function drawSummary(place, { data }) {
  const save = () =>
    saveText(
      fileName([...data.runs, "facts"], "csv"),
      toCsv([["fact", "unit", ...data.runs], ...data.facts.map(({ name, unit, values }) => [name, unit, ...values])]),
      "text/csv",
    );
  const title = data.runs.length > 1 ? plural(data.runs.length, "run") : "The run";
  const head = make(
    "div",
    { class: "part-head" },
    make("h2", {}, title),
    make("button", { type: "button", class: "quiet", onclick: save }, "CSV"),
  );
  place.append(
    head,
    ...[listNotes(data.notes, data.runs)].filter(Boolean),
    data.runs.length > 1 ? tableFacts(data) : listFacts(data),
  );
  place.append(make("p", { class: "note" }, `Written by regard ${data.version} on ${formatDate(data.made)}.`));
  await null; // the other figures come first
  place.prepend(listContents());
}

define("summary", drawSummary);
