// A page: its title, and its figures one below the other.

import { Arrays } from "./data.js";
import { abridge, make, replace } from "./dom.js";
import { component } from "./registry.js";
import { themeSwitch } from "./theme.js";

/** Fill a place with a page: { title, figures: [{ kind, data, arrays }] }. */
export function showPage(place, header) {
  const main = make("main", {});
  const title = header.title.trim();
  const name = title ? make("h1", { dir: "auto" }, abridge(title)) : make("h1", { class: "unseen" }, "regard");
  replace(place, make("header", { class: "masthead" }, name, themeSwitch()), main);
  for (const figure of header.figures) {
    const section = make("section", { class: `figure ${figure.kind}` });
    main.append(section);
    showFigure(section, figure, title);
  }
}

/** One figure that can't be drawn says so in its place, and leaves the others alone. */
async function showFigure(section, figure, heading) {
  try {
    await component(figure.kind)(section, { data: figure.data, arrays: new Arrays(figure.arrays), heading });
  } catch (error) {
    section.append(make("p", { class: "failure", role: "alert" }, `This figure can't be drawn: ${error.message}`));
    throw error; // for the console, with its trace
  }
}
