// What models look at, text by text: { runs, texts: [{ text, looks: [{ run, data }] }] }; each `data` is a look's.
// A look is drawn when its box is opened, the first one at once.

import { make } from "./dom.js";
import {} from "./look.js";
import { component, define } from "./registry.js";
import { openBox, runName } from "./runs.js";

function lookBox(labels, { run, data }, arrays) {
  const title = labels.length > 1 ? runName(labels[run], run) : "Attention and predictions";
  return openBox(title, () => {
    const inside = make("div", { class: "look" });
    // after it has been put into the page: what is drawn there asks how wide it is
    queueMicrotask(() => component("look")(inside, { data: { ...data, title: "" }, arrays }));
    return inside;
  });
}

function drawLooks(place, { data, arrays }) {
  place.id = "looks";
  place.append(make("div", { class: "part-head" }, make("h2", {}, "Attention")));
  const note = "What each model does with a text, which isn't the same as why it does it.";
  place.append(make("p", { class: "note" }, note));
  data.texts.forEach(({ text, looks }, n) => {
    const boxes = looks.map((one) => lookBox(data.runs, one, arrays));
    place.append(make("h3", { dir: "auto" }, text), ...boxes);
    if (n === 0) boxes[0].open = true;
  });
}

define("looks", drawLooks);
