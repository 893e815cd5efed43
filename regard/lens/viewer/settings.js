// What differs between run files: { runs, differing: [{ key, values: [text or null, …] }], equal: [{ key, value }],
// files: [{ run, text }] }.

import { make, quote } from "./dom.js";
import { plural } from "./number.js";
import { define } from "./registry.js";
import { openBox, runName } from "./runs.js";
import { fileName, saveText, toCsv } from "./save.js";
import { scrollBox } from "./table.js";

function valueCell(value) {
  return make("td", {}, value === null ? make("span", { class: "absent" }, "not set") : make("code", {}, quote(value)));
}

function tableDifferences({ runs, differing }) {
  const heads = runs.map((label, run) => make("th", { scope: "col" }, runName(label, run)));
  const rows = differing.map(({ key, values }) =>
    make("tr", {}, make("th", { scope: "row" }, make("code", {}, key)), values.map(valueCell)),
  );
  const table = make(
    "table",
    { class: "runs-beside" },
    make("caption", { class: "unseen" }, "Settings that differ"),
    make("thead", {}, make("tr", {}, make("td", {}), heads)),
    make("tbody", {}, rows),
  );
  return scrollBox("Settings that differ", table);
}

function tableEqual(equal) {
  const rows = equal.map(({ key, value }) =>
    make("tr", {}, make("th", { scope: "row" }, make("code", {}, key)), valueCell(value)),
  );
  return scrollBox(
    "Settings that are equal",
    make(
      "table",
      { class: "runs-beside" },
      make("caption", { class: "unseen" }, "Settings that are equal"),
      make("tbody", {}, rows),
    ),
  );
}

function showFile({ runs }, { run, text }) {
  const lines = text.split(/\r\n|\r|\n/).map((line) => make("span", { class: "code-line" }, line || "\u00a0"));
  const save = () => saveText(fileName([runs[run], "run"], "yaml"), text, "application/yaml");
  return [
    make("button", { type: "button", class: "quiet", onclick: save }, "Save this run file"),
    scrollBox(`Run file of ${runs[run]}`, make("code", { class: "file" }, lines)),
  ];
}

function saveSettings({ runs, differing, equal }) {
  const rows = [
    ...differing.map(({ key, values }) => [key, ...values]),
    ...equal.map(({ key, value }) => [key, ...runs.map(() => value)]),
  ];
  saveText(fileName([...runs, "settings"], "csv"), toCsv([["setting", ...runs], ...rows]), "text/csv");
}

function drawSettings(place, { data }) {
  place.id = "settings";
  const several = data.runs.length > 1;
  const some = data.differing.length + data.equal.length > 0;
  const save = make("button", { type: "button", class: "quiet", onclick: () => saveSettings(data) }, "CSV");
  place.append(
    make(
      "div",
      { class: "part-head" },
      make("h2", {}, several ? "What differs between the run files" : "Settings"),
      some ? save : null,
    ),
  );
  if (several)
    place.append(
      data.differing.length
        ? tableDifferences(data)
        : make(
            "p",
            { class: "note" },
            some ? "Nothing: these runs were told to do the same." : "No run file can be read.",
          ),
    );
  if (data.equal.length)
    place.append(
      openBox(
        several ? `${plural(data.equal.length, "setting")} that are equal` : plural(data.equal.length, "setting"),
        () => tableEqual(data.equal),
      ),
    );
  for (const file of data.files) {
    place.append(
      openBox(several ? ["Run file of ", quote(data.runs[file.run])] : "Run file", () => showFile(data, file)),
    );
  }
}

define("settings", drawSettings);
