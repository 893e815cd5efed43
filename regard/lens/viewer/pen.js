// One drawing, three uses: on the screen, as a PNG, as an SVG. A component draws with a pen, which is a canvas' or an
// SVG's; both have rect, text, line, curve, clip and image, in CSS pixels.

import { makeSvg, visible } from "./dom.js";
import { fileName, saveBlob, saveText } from "./save.js";

export const SANS = 'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif';
const SHARP = 2; // pixels of a PNG for one of CSS
const PNG_MOST = 8192; // pixels that a canvas surely may have a side

/** The page's colors by their names in base.css, as they are now: readColors().ink */
export function readColors() {
  const style = getComputedStyle(document.documentElement);
  const names = ["paper", "panel", "ink", "muted", "line", "soft", "grid", "accent", "accent-ink", "warn"];
  return Object.fromEntries(names.map((name) => [name.replace("-i", "I"), style.getPropertyValue(`--${name}`).trim()]));
}

export class CanvasPen {
  constructor(context) {
    this.context = context;
  }

  rect(x, y, width, height, { fill, stroke, thick = 1, opacity = 1, radius = 0 } = {}) {
    const { context } = this;
    context.globalAlpha = opacity;
    context.beginPath();
    if (radius) context.roundRect(x, y, width, height, radius);
    else context.rect(x, y, width, height);
    if (fill) {
      context.fillStyle = fill;
      context.fill();
    }
    if (stroke) {
      context.strokeStyle = stroke;
      context.lineWidth = thick;
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  /** align: left, center or right of x; y is the middle of the line; angle in degrees turns it around (x, y). */
  text(x, y, words, { size = 12, weight = 400, align = "left", fill, angle = 0, opacity = 1 } = {}) {
    const { context } = this;
    context.save();
    context.globalAlpha = opacity;
    context.font = `${weight} ${size}px ${SANS}`;
    context.fillStyle = fill;
    context.textAlign = align;
    context.textBaseline = "middle";
    context.direction = "ltr";
    context.translate(x, y);
    if (angle) context.rotate((angle * Math.PI) / 180);
    context.fillText(visible(words), 0, 0.5);
    context.restore();
  }

  /** points: [[x, y], …]; dash: [4, 3] */
  line(points, { stroke, thick = 1, opacity = 1, dash = [] } = {}) {
    this.#stroke({ stroke, thick, opacity, dash }, (context) =>
      points.forEach(([x, y], n) => (n ? context.lineTo(x, y) : context.moveTo(x, y))),
    );
  }

  /** From one point to another, level at both ends. */
  curve([x0, y0], [x1, y1], { stroke, thick = 1, opacity = 1 } = {}) {
    const middle = (x0 + x1) / 2;
    this.#stroke({ stroke, thick, opacity, dash: [] }, (context) => {
      context.moveTo(x0, y0);
      context.bezierCurveTo(middle, y0, middle, y1, x1, y1);
    });
  }

  #stroke({ stroke, thick, opacity, dash }, trace) {
    const { context } = this;
    context.globalAlpha = opacity;
    context.strokeStyle = stroke;
    context.lineWidth = thick;
    context.lineJoin = "round";
    context.setLineDash(dash);
    context.beginPath();
    trace(context);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  /** Draw inside of a rectangle only. */
  clip(x, y, width, height, draw) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
    draw();
    this.context.restore();
  }

  /** The pixels of another canvas, each as a sharp rectangle. */
  image(source, x, y, width, height) {
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(source, x, y, width, height);
  }
}

export class SvgPen {
  constructor(width, height) {
    this.root = makeSvg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, "font-family": SANS });
  }

  rect(x, y, width, height, { fill = "none", stroke, thick, opacity, radius } = {}) {
    this.#add("rect", { x, y, width, height, fill, stroke, "stroke-width": stroke && thick, opacity, rx: radius });
  }

  text(x, y, words, { size = 12, weight, align = "left", fill, angle = 0, opacity } = {}) {
    const anchor = { left: null, center: "middle", right: "end" }[align];
    const transform = angle ? `rotate(${angle} ${round(x)} ${round(y)})` : null;
    const settings = {
      x,
      y,
      fill,
      opacity,
      transform,
      "font-size": size,
      "font-weight": weight,
      "text-anchor": anchor,
    };
    this.#add("text", { ...settings, "dominant-baseline": "central" }, words);
  }

  line(points, { stroke, thick, opacity, dash } = {}) {
    const settings = { fill: "none", stroke, "stroke-width": thick, opacity, "stroke-linejoin": "round" };
    this.#add("polyline", {
      points: points.map((point) => point.map(round).join(",")).join(" "),
      ...settings,
      "stroke-dasharray": dash?.join(" ") || null,
    });
  }

  curve([x0, y0], [x1, y1], { stroke, thick, opacity } = {}) {
    const [left, top, right, bottom, middle] = [x0, y0, x1, y1, (x0 + x1) / 2].map(round);
    const d = `M${left},${top}C${middle},${top} ${middle},${bottom} ${right},${bottom}`;
    this.#add("path", { d, fill: "none", stroke, "stroke-width": thick, opacity });
  }

  /** What is saved is drawn whole, so there is nothing to cut off. */
  clip(x, y, width, height, draw) {
    draw();
  }

  image(source, x, y, width, height) {
    const settings = { x, y, width, height, preserveAspectRatio: "none", href: source.toDataURL("image/png") };
    this.#add("image", { ...settings, "image-rendering": "pixelated" });
  }

  #add(tag, settings, ...children) {
    const known = Object.entries(settings).map(([name, value]) => [
      name,
      typeof value === "number" ? round(value) : value,
    ]);
    this.root.append(makeSvg(tag, Object.fromEntries(known), ...children));
  }

  toString() {
    return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(this.root)}\n`;
  }
}

function round(value) {
  return Math.round(value * 100) / 100;
}

/** A canvas of so many CSS pixels, sharp on this screen, and a pen for it. An old canvas is used again. */
export function fitCanvas(canvas, width, height, sharp = devicePixelRatio || 1) {
  const [across, down] = [Math.max(1, Math.round(width * sharp)), Math.max(1, Math.round(height * sharp))];
  if (canvas.width !== across || canvas.height !== down) Object.assign(canvas, { width: across, height: down });
  Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
  const context = canvas.getContext("2d");
  context.setTransform(sharp, 0, 0, sharp, 0, 0);
  context.clearRect(0, 0, width, height);
  return new CanvasPen(context);
}

/** Download a drawing, { words, width, height, draw(pen) }: its name is made of the words. */
export function savePng({ words, width, height, draw }) {
  const canvas = document.createElement("canvas");
  const pen = fitCanvas(canvas, width, height, Math.min(SHARP, PNG_MOST / Math.max(width, height)));
  pen.rect(0, 0, width, height, { fill: readColors().panel });
  draw(pen);
  saveBlob(fileName(words, "png"), encodePng(canvas));
}

/** A canvas as a file, at once: a browser may refuse what comes long after the click that asked for it. */
function encodePng(canvas) {
  const letters = atob(canvas.toDataURL("image/png").split(",")[1]);
  return new Blob([Uint8Array.from(letters, (letter) => letter.charCodeAt(0))], { type: "image/png" });
}

export function saveSvg({ words, width, height, draw }) {
  const pen = new SvgPen(width, height);
  pen.rect(0, 0, width, height, { fill: readColors().panel });
  draw(pen);
  saveText(fileName(words, "svg"), pen.toString(), "image/svg+xml");
}

const ruler = document.createElement("canvas").getContext("2d");

/** How wide words are, in CSS pixels. */
export function measure(words, size = 12, weight = 400) {
  ruler.font = `${weight} ${size}px ${SANS}`;
  return ruler.measureText(visible(words)).width;
}

/** Words that fit into a width: their beginning and an ellipsis where they don't; never half of a letter. */
export function shorten(words, width, size = 12, weight = 400) {
  if (measure(words, size, weight) <= width) return words;
  const letters = [...new Intl.Segmenter("en").segment(words)].map(({ segment }) => segment);
  let [least, most] = [0, letters.length];
  while (least < most) {
    const middle = Math.ceil((least + most) / 2);
    if (measure(`${letters.slice(0, middle).join("")}…`, size, weight) <= width) least = middle;
    else most = middle - 1;
  }
  return `${letters.slice(0, least).join("")}…`;
}
