// Shades of a weight: magma, whose lightness grows evenly, so it reads in grey and whatever one's color vision. On dark
// paper more weight is lighter; on white paper it is turned around and begins at white: more weight is darker.

const MAGMA = [
  "000004 0a0822 1d1146 36106a 50127c 691c81 822681 9c2e7f b63779",
  "cf4170 e65163 f5695c fb8761 fea571 fec387 fde0a2 fcfdbf",
];
const DARK = MAGMA.join(" ").split(" ");
const LIGHT = ["ffffff", ...DARK.toReversed().slice(1, -1), "0a0822"];
export const SCALES = {
  root: "root, to the largest",
  linear: "linear, to the largest",
  whole: "linear, 0 to 1",
};

/** 256 shades as { css: […], pixels: […] (for an ImageData), inks: […] (text that reads on each), lost }. */
export function makeShades(dark) {
  const anchors = (dark ? DARK : LIGHT).map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  const colors = Array.from({ length: 256 }, (_, n) => blend(anchors, (n / 255) * (anchors.length - 1)));
  return {
    css: colors.map((color) => `rgb(${color.join(" ")})`),
    pixels: Uint32Array.from(colors, ([red, green, blue]) => ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0),
    inks: colors.map((color) => (lightness(color) > 0.42 ? "#000000" : "#ffffff")),
    lost: dark ? "#55525e" : "#c9c6cf",
  };
}

function blend(anchors, place) {
  const before = Math.min(Math.floor(place), anchors.length - 2);
  return anchors[before].map((from, n) => Math.round(from + (anchors[before + 1][n] - from) * (place - before)));
}

function lightness([red, green, blue]) {
  return (0.3 * red + 0.59 * green + 0.11 * blue) / 255;
}

/** Which of the 256 shades a value has; -1 for what is no number. Signs don't count: a size is shown. */
export function shadeOf(value, top, scale) {
  if (!Number.isFinite(value)) return -1;
  const limit = scale === "whole" ? Math.max(1, top) : top;
  const share = limit > 0 ? Math.min(1, Math.abs(value) / limit) : 0;
  return Math.round(255 * (scale === "root" ? Math.sqrt(share) : share));
}

/** The weight that a shade stands for, which is so far along the strip of all shades. */
export function weightOf(share, top, scale) {
  const limit = scale === "whole" ? Math.max(1, top) : top;
  return limit * (scale === "root" ? share * share : share);
}

/** A canvas with one pixel a value, or fewer: then each pixel has the largest of its patch, so no peak is lost. */
export function paint({ rows, columns, values, top }, scale, shades, most = Infinity) {
  const [down, across] = [Math.min(rows, most), Math.min(columns, most)];
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: Math.max(1, across), height: Math.max(1, down) });
  const context = canvas.getContext("2d");
  const image = context.createImageData(canvas.width, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const found = down < rows || across < columns ? pool(values, rows, columns, down, across) : values;
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(shades.lost.slice(at, at + 2), 16));
  const lost = ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  for (let n = 0; n < found.length; n += 1) {
    const shade = shadeOf(found[n], top, scale);
    pixels[n] = shade < 0 ? lost : shades.pixels[shade];
  }
  context.putImageData(image, 0, 0);
  return canvas;
}

function pool(values, rows, columns, down, across) {
  const found = new Float32Array(down * across).fill(NaN);
  for (let row = 0; row < rows; row += 1) {
    const line = Math.floor((row * down) / rows) * across;
    for (let column = 0; column < columns; column += 1) {
      const place = line + Math.floor((column * across) / columns);
      const size = Math.abs(values[row * columns + column]);
      if (!(found[place] >= size)) found[place] = Number.isNaN(size) ? found[place] : size;
    }
  }
  return found;
}
