// A table: { title?, note?, columns: ["name", …], rows: [[text or number, …], …] }. A click on a column's name sorts
// by it; the arrow beside the name says how.

import { make, replace, uniqueId } from "./dom.js";
import { show } from "./number.js";
import { define } from "./registry.js";
import { fileName, saveText, toCsv } from "./save.js";

/** A table element that sorts itself; the caller puts it where it belongs. */
export function makeTable({ columns, rows, caption, digits = 6 }) {
  const body = make("tbody", {});
  const heads = columns.map((name, column) => {
    const button = make(
      "button",
      { type: "button", class: "sorter" },
      name,
      make("span", { class: "arrow", "aria-hidden": "true" }),
    );
    const head = make("th", { scope: "col", class: isNumeric(rows, column) ? "number" : null }, button);
    button.addEventListener("click", () => sortBy(column, head));
    return head;
  });
  const fillBody = (shown) =>
    replace(
      body,
      shown.map((row) =>
        make(
          "tr",
          {},
          row.map((value) => makeCell(value, digits)),
        ),
      ),
    );

  function sortBy(column, head) {
    const rising = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach((each) => each.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
    fillBody([...rows].sort((a, b) => compare(a[column], b[column], rising)));
  }

  fillBody(rows);
  const name = make("caption", { class: "unseen" }, caption);
  return make("table", {}, name, make("thead", {}, make("tr", {}, heads)), body);
}

function isNumeric(rows, column) {
  return rows.length > 0 && rows.every((row) => row[column] === null || typeof row[column] === "number");
}

function makeCell(value, digits) {
  return typeof value === "number" || value === null
    ? make("td", { class: "number" }, Number.isInteger(value) ? String(value) : show(value, digits))
    : make("td", { dir: "auto" }, value);
}

/** What isn't there stands last, however it is sorted. */
function compare(a, b, rising) {
  if (a === null || b === null) return (a === null) - (b === null);
  const sign = rising ? 1 : -1;
  return (
    sign *
    (typeof a === "number" && typeof b === "number"
      ? a - b
      : String(a).localeCompare(String(b), "en", { numeric: true }))
  );
}

/** A box that scrolls sideways instead of the page, and that keys can reach. */
export function scrollBox(label, ...children) {
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label }, children);
}

function drawTable(place, { data }) {
  const id = uniqueId("table");
  const title = data.title || "Table";
  const save = () => saveText(fileName([title], "csv"), toCsv([data.columns, ...data.rows]), "text/csv");
  place.append(
    make(
      "div",
      { class: "panel-head" },
      make("h2", { id, dir: "auto" }, title),
      make("button", { type: "button", class: "quiet", onclick: save }, "CSV"),
    ),
  );
  if (data.note) place.append(make("p", { class: "note", dir: "auto" }, data.note));
  place.append(scrollBox(title, makeTable({ columns: data.columns, rows: data.rows, caption: title })));
}

define("table", drawTable);
