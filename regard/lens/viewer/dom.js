// Elements, made without markup: strings become text nodes, so whatever a model says is only ever read.

const SVG = "http://www.w3.org/2000/svg";
// controls, marks of direction, separators, signs that XML doesn't know, halves of letters
const UNSEEN = /[\p{Cc}\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ufffe\uffff]|\p{Cs}/gu;
let count = 0;

/** make("p", { class: "note", onclick: act }, "text", child): null and false among the children are left out. */
export function make(tag, settings = {}, ...children) {
  return fill(document.createElement(tag), settings, children);
}

export function makeSvg(tag, settings = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), settings, children);
}

function fill(element, settings, children) {
  for (const [name, value] of Object.entries(settings)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  put(element, children);
  return element;
}

function put(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : visible(String(child)));
  }
}

/** Give an element new children. */
export function replace(element, ...children) {
  element.replaceChildren();
  put(element, children);
}

/** An id that nothing else on the page has. */
export function uniqueId(stem) {
  count += 1;
  return `${stem}-${count}`;
}

/** Text of others inside a line: it can't turn the direction of what stands around it. */
export function quote(text, settings = {}) {
  return make("bdi", settings, text);
}

/** The beginning of a text that would take up the screen. */
export function abridge(text, most = 240) {
  return text.length > most ? `${[...text.slice(0, most)].slice(0, -1).join("")}…` : text;
}

/** Text whose control signs and marks of direction are seen instead of obeyed. */
export function visible(text) {
  return text.replace(UNSEEN, (sign) => {
    const code = sign.codePointAt(0);
    if (code === 0x09) return "⇥";
    if (code === 0x0a) return "⏎";
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    return code >= 0xd800 && code <= 0xdfff ? "\ufffd" : `⟨${code.toString(16).toUpperCase().padStart(4, "0")}⟩`;
  });
}
