// Components by the kind of figure that they draw. A component enters itself at the end of its file:
//   define("curves", drawCurves);
// drawCurves(place, figure) fills an empty element; figure is { data, arrays, heading }: arrays as in data.js,
// and the heading of the whole page. It may be async.

const components = new Map();

export function define(kind, draw) {
  if (components.has(kind)) throw new Error(`two components draw ${kind}`);
  components.set(kind, draw);
}

export function component(kind) {
  return components.get(kind);
}
