// Bars in groups: a group for each name, in it a bar for each series, lying, so that names of any length can be read on
// any screen. Beside each bar stands the mark of its series, behind it the value. A trace is { number, values, low,
// high } with one entry a name (null where there is none); one of a formula has `guide: true` and is a line across its
// group.

import { showValue } from "./number.js";
import { measure, readColors, shorten } from "./pen.js";
import { bounds, canDraw, drawLine, paintMark, paintWhisker, widen } from "./plot.js";
import { guideDash, runStyle } from "./runs.js";
import { logTicks, makeScale, niceTicks, shortNumber } from "./scale.js";

const BETWEEN = 12; // between two groups
const UNDER = 40; // the axis and its name
const ROW = 16; // of a name that takes several lines
const BESIDE = 0.36; // of the width, which names may take
const SIGN = 16; // the column of marks

/** How thick a bar is with its gap, and how high all groups are. */
export function measureGroups({ traces, names }) {
  const count = traces.filter(({ guide }) => !guide).length;
  const thick = count > 6 ? 13 : 16;
  const group = Math.max(count * thick, 1.5 * ROW) + BETWEEN;
  return { thick, group, height: names.length * group + UNDER };
}

/** Draw groups: { traces, names, logarithmic, down, at, locked }. The index of a name at a height, as a function. */
export function paintGroups(pen, chart, width, top) {
  const { traces, names, at } = chart;
  const colors = readColors();
  const { group, height } = measureGroups(chart);
  const wanted = Math.max(30, ...names.map((name) => measure(name, 12)));
  const left = Math.min(wanted, BESIDE * width) + SIGN + 8;
  const range = findLength(traces, chart.logarithmic);
  const values = traces.flatMap((trace) => trace.values).filter((value) => value !== null);
  const beyond = Math.max(20, ...values.map((value) => measure(showValue(value), 11)));
  const across = makeScale(range ?? { low: 0, high: 1 }, left, width - beyond - 12);
  const bottom = top + height - UNDER;
  const plot = { ...chart, pen, colors, across, range, left };
  if (at !== null) paintBand(plot, top + names.indexOf(at) * group, group, width);
  if (range) paintLengths(plot, top, bottom, width);
  names.forEach((name, n) => {
    const middle = top + (n + 0.5) * group;
    const lines = breakWords(name, left - SIGN - 8, Math.max(1, Math.floor(group / ROW)));
    lines.forEach((line, m) =>
      pen.text(left - SIGN - 4, middle + (m - (lines.length - 1) / 2) * ROW, line, {
        align: "right",
        fill: colors.ink,
      }),
    );
    paintGroup(plot, n, top + n * group, group);
  });
  return (y) => Math.min(names.length - 1, Math.max(0, Math.floor((y - top) / group)));
}

/** From where to where bars go: from zero, unless the axis is logarithmic; null where there is nothing. */
function findLength(traces, logarithmic) {
  const all = traces.flatMap(({ values, low, high }) => [...values, ...low, ...high]);
  const found = bounds(all.filter((value) => canDraw(value, logarithmic)));
  if (!found) return null;
  if (!logarithmic) return widen(Math.min(0, found[0]), Math.max(0, found[1]), 0, false);
  return widen(found[0] / 1.6, found[1], found[0], true); // the shortest bar can be seen
}

function paintBand({ pen, colors, locked }, y, group, width) {
  const edge = locked ? { stroke: colors.muted } : {};
  pen.rect(1, y + 1, width - 2, group - 2, { fill: colors.soft, radius: 6, ...edge });
}

/** Round numbers below, and a line up from each. */
function paintLengths({ pen, colors, across, range, down, left }, top, bottom, width) {
  const about = Math.max(2, Math.floor((width - left) / 90));
  const ticks = range.logarithmic ? logTicks(range.low, range.high, about) : niceTicks(range.low, range.high, about);
  for (const tick of ticks) {
    const x = Math.round(across.place(tick)) + 0.5;
    drawLine(pen, [x, top], [x, bottom], { stroke: colors.line });
    pen.text(x, bottom + 11, shortNumber(tick), { size: 11, align: "center", fill: colors.muted });
  }
  pen.text((left + width) / 2, bottom + 29, shorten(down, width - left), { align: "center", fill: colors.muted });
}

function paintGroup(plot, n, y, group) {
  const { pen, colors, across, traces, logarithmic, range, left } = plot;
  const bars = traces.filter(({ guide }) => !guide);
  const { thick } = measureGroups(plot);
  const first = y + (group - bars.length * thick) / 2;
  const zero = range && !logarithmic ? across.place(0) : left;
  bars.forEach(({ number, values, low, high }, m) => {
    const middle = first + (m + 0.5) * thick;
    const { color, shape } = runStyle(number);
    if (!canDraw(values[n], logarithmic)) return;
    paintMark(pen, shape, left - SIGN / 2 - 1, middle, 3.2, { stroke: color, thick: 1.8 });
    const end = across.place(values[n]);
    const [begin, length] = [Math.min(zero, end), Math.abs(end - zero)];
    pen.rect(begin, middle - thick / 2 + 2, length, thick - 4, { fill: color, radius: 1.5 });
    let most = Math.max(zero, end);
    if (canDraw(low[n], false) && canDraw(high[n], logarithmic)) {
      const [from, to] = [canDraw(low[n], logarithmic) ? across.place(low[n]) : left, across.place(high[n])];
      paintWhisker(pen, [from, middle], [to, middle], colors.ink);
      most = Math.max(most, to);
    }
    pen.text(most + 6, middle, showValue(values[n]), { size: 11, fill: colors.muted });
  });
  for (const { number, values } of traces.filter(({ guide }) => guide)) {
    if (!canDraw(values[n], logarithmic)) continue;
    const x = across.place(values[n]);
    drawLine(pen, [x, y + 2], [x, y + group - 2], { stroke: colors.ink, dash: guideDash(number) });
  }
}

/** A name in at most so many lines, broken between words; the last is cut short. */
export function breakWords(text, width, most) {
  const lines = [];
  for (const word of text.split(" ")) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && (measure(longer, 12) <= width || lines.length === most)) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.map((line) => shorten(line, width));
}
