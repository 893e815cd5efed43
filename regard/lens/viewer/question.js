// An experiment's question: { question, claim, method, finding, shown, about }. What was found is hidden until the reader
// asks for it: whoever has guessed first remembers the answer.

import { make } from "./dom.js";
import { define } from "./registry.js";

function drawQuestion(place, { data }) {
  const mark = make("b", { class: data.shown ? "held" : "failed" }, data.shown ? "Shown. " : "Not shown here. ");
  place.append(
    make("h2", { dir: "auto" }, data.question),
    make("p", { dir: "auto" }, make("b", {}, "The claim: "), data.claim),
    make("p", { dir: "auto" }, make("b", {}, "What was done: "), data.method),
    make(
      "details",
      { class: "answer" },
      make("summary", {}, "What do you expect? Then open the answer"),
      make("p", { dir: "auto" }, mark, data.finding),
    ),
    make("p", { class: "note", dir: "auto" }, data.about),
  );
}

define("question", drawQuestion);
