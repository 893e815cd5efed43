// A text: { title?, note?, text }, as it is, with its line breaks.

import { make } from "./dom.js";
import { define } from "./registry.js";

function drawText(place, { data }) {
  if (data.title) place.append(make("h2", { dir: "auto" }, data.title));
  if (data.note) place.append(make("p", { class: "note", dir: "auto" }, data.note));
  for (const line of data.text.split(/\r\n|\r|\n/))
    place.append(make("p", { class: "line", dir: "auto" }, line || "\u00a0"));
}

define("text", drawText);
