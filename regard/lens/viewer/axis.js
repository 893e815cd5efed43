// An axis of a map: what its rows or columns are called. Tokens may be merged to words; a memory's slots have numbers.
// Where tokens are places of a picture, `picture` has it: its pixels, and the grid that the places stand in.

const START = /^[▁Ġ]/u; // stands before a piece that begins a word
const PUNCTUATION = /^\p{P}+$/u;
const LONGEST = 120; // letters of a label

/** { name, size, labels, texts, spans, noun, picture }; spans are [first, end] of tokens for words, null otherwise. */
export function makeAxis(name, spec, size, unit) {
  if (!spec?.tokens) return numbered(name, size, name === "slots" ? "slot" : "position");
  const tokens = Array.from({ length: size }, (_, n) => spec.tokens[n] ?? String(n));
  const { picture } = spec;
  if (picture) return { name, size, labels: tokens.map(readable), texts: tokens, spans: null, noun: "place", picture };
  const spans = wordSpans(spec, size);
  if (unit === "words" && spans) {
    const texts = spans.map(([first, end]) => joinPieces(tokens.slice(first, end)));
    return { name, size: spans.length, labels: texts.map(readable), texts, spans, noun: "word" };
  }
  const inside = new Set(
    (spans ?? []).flatMap(([first, end]) => Array.from({ length: end - first - 1 }, (_, n) => first + 1 + n)),
  );
  const labels = tokens.map((token, n) => readable(pieceLabel(token, inside.has(n))));
  return { name, size, labels, texts: tokens, spans: null, noun: "token" };
}

function numbered(name, size, noun) {
  const texts = Array.from({ length: size }, (_, n) => String(n));
  return { name, size, labels: texts, texts, spans: null, noun };
}

/** The words of an axis, if they take up all of its tokens in order, and null otherwise. */
export function wordSpans(spec, size) {
  const { words } = spec ?? {};
  if (!words?.length) return null;
  let place = 0;
  for (const [first, end] of words) {
    if (first !== place || end <= first) return null;
    place = end;
  }
  return place === size ? words : null;
}

/** A piece without the mark of a word's beginning, and with a hyphen where it goes on. */
function pieceLabel(piece, goesOn) {
  const text = piece.replace(START, "").replace(goesOn ? /^##/ : "", "") || piece;
  return goesOn && !PUNCTUATION.test(text) ? `-${text}` : text;
}

function joinPieces(pieces) {
  return (
    pieces.map((piece, n) => (n ? piece.replace(/^##/, "") : piece.replace(START, ""))).join("") || pieces.join("")
  );
}

/** Spaces are seen, a mark without a letter gets a place to stand on, and a label has an end. */
export function readable(text) {
  const seen = (text || "∅")
    .replace(/^\s+|\s+$/gu, (spaces) => spaces.replace(/[^\n\t]/gu, "␣"))
    .replace(/Ġ/gu, "␣")
    .replace(/Ċ/gu, "⏎");
  const based = /^\p{M}/u.test(seen) ? `◌${seen}` : seen;
  return based.length > LONGEST ? `${[...based.slice(0, LONGEST)].slice(0, -1).join("")}…` : based;
}

/** Whether the model answers at the places of an axis: at what it reads there, or is to write there. */
export function answers(axis) {
  return axis.name === "target" || axis.name === "written";
}

/** The place of a token on an axis, and the first token of a place. */
export function placeOf(axis, token) {
  if (!axis.spans) return token < axis.size ? token : null;
  const found = axis.spans.findIndex(([first, end]) => first <= token && token < end);
  return found < 0 ? null : found;
}

export function tokenOf(axis, place) {
  return axis.spans ? axis.spans[place][0] : place;
}
