// A plot: { title, note, across, down, named, logarithmic: { across, down }, series: [{ name, guide, place, value, low,
// high }, …] }.

import { make } from "./dom.js";
import { define } from "./registry.js";
import { makeTable, scrollBox } from "./table.js";

function drawGraph(place, { data }) {
  const rows = data.series.flatMap(({ name, place: places, value }) => places.map((each, n) => [name, each, value[n]]));
  place.append(
    make("h2", { dir: "auto" }, data.title),
    scrollBox(data.title, makeTable({ columns: ["series", data.across, data.down], rows, caption: data.title })),
  );
}

define("graph", drawGraph);
