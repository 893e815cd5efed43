// What models answer: { runs, groups: [{ roles: [given, expected, answer], given, expected, aligned, answers: [{ run,
// answer, right, note }] }], splits, notes }. Each side is a list of texts.

import { make } from "./dom.js";
import { define } from "./registry.js";
import { listNotes, runName } from "./runs.js";
import { fileName, saveText, toCsv } from "./save.js";
import { scrollBox } from "./table.js";

const WORDS = 400; // of a text, up to which it is compared word by word
const RIGHT = "as expected";
const WRONG = "not as expected";

/** Text with its line breaks, each line by itself; `inside` makes what is in a line. */
function textLines(text, inside = (line) => line) {
  return text
    .split(/\r\n|\r|\n/)
    .map((line) => make("span", { class: "row", dir: "auto" }, line ? inside(line) : "\u00a0"));
}

/** Which words are also in the other text, in the same order (the longest common subsequence). */
export function commonWords(words, others) {
  const table = Array.from({ length: words.length + 1 }, () => new Uint16Array(others.length + 1));
  for (let n = words.length - 1; n >= 0; n -= 1) {
    for (let m = others.length - 1; m >= 0; m -= 1) {
      table[n][m] = words[n] === others[m] ? table[n + 1][m + 1] + 1 : Math.max(table[n + 1][m], table[n][m + 1]);
    }
  }
  const found = new Set();
  for (let n = 0, m = 0; n < words.length && m < others.length;) {
    if (words[n] === others[m]) {
      found.add(n);
      n += 1;
      m += 1;
    } else if (table[n + 1][m] >= table[n][m + 1]) n += 1;
    else m += 1;
  }
  return found;
}

/** An answer whose words that the expected text hasn't got are underlined. */
function markDifferences(answer, expected) {
  const words = answer.split(/(\s+)/);
  const own = words.filter((_, n) => n % 2 === 0);
  const others = expected.split(/\s+/);
  if (own.length > WORDS || others.length > WORDS) return textLines(answer);
  const common = commonWords(own, others);
  return make(
    "span",
    { class: "row", dir: "auto" },
    words.map((word, n) => (n % 2 || !word || common.has(n / 2) ? word : make("span", { class: "other" }, word))),
  );
}

function sideText(texts) {
  return texts.map((text) => make("span", { class: "side" }, textLines(text)));
}

function rightMark(right) {
  if (right === null || right === undefined) return null;
  return make(
    "span",
    {
      class: right ? "right" : "wrong",
      role: "img",
      "aria-label": right ? RIGHT : WRONG,
      title: right ? RIGHT : WRONG,
    },
    right ? "✓" : "✗",
  );
}

/** A line of a sample: what it is, and what it says. */
function sampleLine(name, ...content) {
  return make("div", { class: "pair" }, make("dt", {}, name), make("dd", {}, content));
}

function answerText({ expected, roles }, { answer }) {
  // a continuation is another text by nature, and one of several guesses is a word: neither is compared word by word
  const compared =
    expected.length === 1 &&
    answer.length === 1 &&
    answer[0] !== expected[0] &&
    roles[1] === "reference" &&
    !answer[0].includes("\n");
  return compared ? markDifferences(answer[0], expected[0]) : sideText(answer);
}

function drawPlain(group, runs) {
  const [given, expected, answer] = group.roles;
  const lines = [sampleLine(given, sideText(group.given))];
  if (group.expected.length) lines.push(sampleLine(expected, sideText(group.expected)));
  for (const one of group.answers) {
    const name = runs.length > 1 ? runName(runs[one.run], one.run) : answer;
    lines.push(
      sampleLine(
        name,
        answerText(group, one),
        " ",
        rightMark(one.right),
        one.note ? make("span", { class: "aside" }, one.note) : null,
      ),
    );
  }
  return make("dl", {}, lines);
}

/** Word by word: the words across the top, and a line of labels for what was expected and for each answer. */
function drawAligned(group, runs) {
  const [given, expected, answer] = group.roles;
  const line = (name, cells) => make("tr", {}, make("th", { scope: "row" }, name), cells);
  const words = line(
    given,
    group.given.map((word) => make("th", { scope: "col", dir: "auto" }, word)),
  );
  const gold = group.expected.length
    ? line(
        expected,
        group.expected.map((label) => make("td", {}, label)),
      )
    : null;
  const answers = group.answers.map((one) =>
    line(
      runs.length > 1 ? runName(runs[one.run], one.run) : answer,
      one.answer.map((label, n) => {
        const wrong = group.expected.length > 0 && label !== group.expected[n];
        return make(
          "td",
          { class: wrong ? "wrong" : null },
          label,
          wrong ? make("span", { class: "unseen" }, ` ${WRONG}`) : null,
        );
      }),
    ),
  );
  return scrollBox(
    group.given.join(" "),
    make(
      "table",
      { class: "aligned" },
      make("caption", { class: "unseen" }, given),
      make("tbody", {}, words, gold, answers),
    ),
  );
}

function saveSamples(data) {
  const rows = data.groups.flatMap((group) =>
    group.answers.map(({ run, answer, right, note }) => [
      data.runs[run],
      group.given.join(" | "),
      group.expected.join(" | "),
      answer.join(" | "),
      right === null ? "" : String(right),
      note,
    ]),
  );
  saveText(
    fileName([...data.runs, "samples"], "csv"),
    toCsv([["run", "given", "expected", "answer", "right", "note"], ...rows]),
    "text/csv",
  );
}

function drawSamples(place, { data }) {
  place.id = "samples";
  const save = make("button", { type: "button", class: "quiet", onclick: () => saveSamples(data) }, "CSV");
  place.append(make("div", { class: "part-head" }, make("h2", {}, "Samples"), data.groups.length ? save : null));
  const marked = data.groups.some(({ roles, answers }) => roles[1] === "reference" && answers.length);
  const told = [
    data.splits.length ? `Kept from training (${data.splits.join(", ")}), and answered when this page was made.` : "",
    marked ? "Underlined: words that the reference hasn't got." : "",
  ];
  if (data.groups.length) place.append(make("p", { class: "note" }, told.filter(Boolean).join(" ")));
  place.append(...[listNotes(data.notes, data.runs)].filter(Boolean));
  for (const group of data.groups) {
    place.append(
      make("div", { class: "sample" }, group.aligned ? drawAligned(group, data.runs) : drawPlain(group, data.runs)),
    );
  }
}

define("samples", drawSamples);
