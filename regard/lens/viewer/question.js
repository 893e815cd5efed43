// An experiment's question: { question, claim, method, finding, shown, about }. What was found is hidden until the
// reader asks for it: whoever has guessed first remembers the answer.

import { make } from "./dom.js";
import { define } from "./registry.js";

function tellPart(name, text) {
  return [make("dt", {}, name), make("dd", { dir: "auto" }, text)];
}

function drawQuestion(place, { data }) {
  const verdict = data.shown
    ? make("span", { class: "verdict held" }, "✓ Shown")
    : make("span", { class: "verdict" }, "✗ Not shown here");
  place.append(
    make("h2", { dir: "auto" }, data.question),
    make("dl", {}, tellPart("The claim", data.claim), tellPart("What was done", data.method)),
    make(
      "details",
      { class: "answer" },
      make("summary", {}, "What do you expect? Open this for what was found."),
      make("p", { dir: "auto" }, verdict, " ", data.finding),
    ),
    make("p", { class: "note", dir: "auto" }, data.about),
  );
}

define("question", drawQuestion);
