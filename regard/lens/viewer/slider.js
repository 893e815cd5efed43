// A drawing that is a slider: a pointer or keys choose a place in it. Hover previews, a click or Enter locks, Esc
// clears. The store has { at, locked }; what `at` is, a number or a name, is the view's affair.

const JUMP = 10; // places that Page Up and Page Down go
const MOVES = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: JUMP, PageDown: -JUMP };
const FALLING = { ArrowUp: -1, ArrowDown: 1, PageUp: -JUMP, PageDown: JUMP }; // where places stand below each other

/** The index whose place is nearest. */
export function nearestIndex(places, wanted) {
  let best = null;
  places.forEach((place, n) => {
    if (place !== null && (best === null || Math.abs(place - wanted) < Math.abs(places[best] - wanted))) best = n;
  });
  return best;
}

/**
 * Listen to a slider. The view says what can be chosen by keys, stops(); which of them is nearest, find(at); and what
 * is under a pointer, seek(event), null where there is nothing. `falling`: the next place is the one below.
 */
export function listenSlider(slider, store, view) {
  const point = (event) => {
    const at = view.seek(event);
    if (!store.values.locked && at !== null) store.set({ at });
  };
  const leave = () => store.values.locked || store.set({ at: null });
  slider.addEventListener("pointermove", point);
  slider.addEventListener("pointerleave", leave);
  slider.addEventListener("blur", leave);
  slider.addEventListener("keydown", (event) => pressKey(event, store, view));
  slider.addEventListener("click", (event) => {
    // a finger has left before it clicks, so what is under it is asked for again
    const at = view.seek(event);
    if (at !== null) store.set(store.values.locked ? { at, locked: false } : { at, locked: true });
  });
}

function pressKey(event, store, view) {
  const stops = view.stops();
  if (event.ctrlKey || event.metaKey || event.altKey || !stops.length) return;
  const moves = view.falling ? { ...MOVES, ...FALLING } : MOVES;
  const { at, locked } = store.values;
  const last = stops.length - 1;
  if (event.key in moves) {
    const step = moves[event.key];
    const next = at === null ? (step > 0 ? 0 : last) : view.find(at) + step;
    store.set({ at: stops[Math.min(last, Math.max(0, next))] });
  } else if (event.key === "Home" || event.key === "End") store.set({ at: stops[event.key === "Home" ? 0 : last] });
  else if (event.key === "Enter") store.set({ locked: !locked && at !== null });
  else if (event.key === "Escape") store.set({ at: null, locked: false });
  else return;
  event.preventDefault();
}
