// What a chart looks like: axes, lines, their rough edges, marks and the place that is pointed at, drawn by any pen.
// A trace is what one run has: { number, run, line, marks } (chart.js collects them), or a series of a graph: { number,
// line, marks }, or what a formula says: { number, guide }.

import { measure, readColors, shorten } from "./pen.js";
import { guideDash, markStrokes, runStyle } from "./runs.js";
import { logTicks, makeScale, niceTicks, shortNumber } from "./scale.js";

export const LEGEND_LINE = 18; // the height of a line of a legend
const EDGE = { top: 10, right: 14, bottom: 24 };
const NAME = 17; // the height of the name of an axis
const ROOM = 0.25; // of the range of the lines, which their rough edges may take beyond it
const LABELS = 90; // pixels of the x axis for each label

/** The lowest and the highest of some values; null where there are none. */
export function bounds(values) {
  const there = values.filter((value) => value !== null && value !== undefined);
  return there.length ? [Math.min(...there), Math.max(...there)] : null;
}

/** What the y axis goes from and to; null where there is nothing to draw. */
function findRange(traces, logarithmic) {
  const parts = traces.map(({ line, marks, guide }) => [line?.values, guide?.values, marks?.values, spread(marks)]);
  const smooth = parts.flat(2);
  const found = bounds(logarithmic ? smooth.filter((value) => value > 0) : smooth);
  if (!found) return null;
  const [low, high] = found;
  const rough = traces.flatMap(({ line }) => (line?.rough ? [line.low, line.high].flat() : []));
  const [least, most] = bounds(rough) ?? found;
  // one peak would flatten everything, so what goes far beyond is cut at the edge
  const room = ROOM * (high - low);
  return widen(
    Math.max(Math.min(low, least), low - room),
    Math.min(Math.max(high, most), high + room),
    low,
    logarithmic,
  );
}

/** The ends of all intervals. */
function spread(marks) {
  return marks ? [...marks.low, ...marks.high] : [];
}

/** A range that can be drawn: above zero where it is logarithmic, and never empty. */
export function widen(low, high, least, logarithmic) {
  const from = logarithmic && low <= 0 ? Math.max(least, 1e-12) : low;
  if (high > from) return { low: from, high, logarithmic };
  if (logarithmic) return { low: from / 2, high: from * 2, logarithmic };
  const half = Math.abs(from) / 10 || 1;
  return { low: from - half, high: from + half, logarithmic };
}

/**
 * Draw a chart: { traces, ends: { low, high, logarithmic }, unit, several, logarithmic, at, locked } between top and
 * top + height. `names`, { across, down }, are written at the axes; `stops` are labels of a logarithmic x axis.
 * The scale of its x axis, or null where no run has anything.
 */
export function paintPlot(pen, chart, width, height, top) {
  const colors = readColors();
  const range = findRange(chart.traces, chart.logarithmic);
  if (!range) {
    const words = chart.names ? "nothing is shown" : "no run that is shown has this";
    pen.text(width / 2, top + height / 2, words, { align: "center", fill: colors.muted });
    return null;
  }
  const name = chart.names ? NAME : 0;
  const [upper, lower] = [top + EDGE.top + name, top + height - EDGE.bottom - name];
  const ticks = range.logarithmic ? logTicks(range.low, range.high, 5) : niceTicks(range.low, range.high, 4);
  const left = 8 + Math.max(22, ...ticks.map((tick) => measure(shortNumber(tick), 11)));
  const ends = widen(chart.ends.low, chart.ends.high, chart.ends.low, chart.ends.logarithmic);
  const across = makeScale(ends, left + 6, width - EDGE.right);
  const down = makeScale(range, lower - 3, upper + 3);
  const keep = (y) => Math.min(lower, Math.max(upper, y));
  const plot = { ...chart, ends, pen, colors, across, down, keep };
  for (const tick of ticks) {
    const y = Math.round(down.place(tick)) + 0.5;
    drawLine(pen, [left, y], [width - EDGE.right + 6, y], { stroke: colors.line });
    pen.text(left - 5, y, shortNumber(tick), { size: 11, align: "right", fill: colors.muted });
  }
  paintPlaces(plot, lower, width);
  if (chart.names) paintNames(plot, left, width, top, height);
  chart.traces.filter(({ line }) => line?.rough).forEach((trace) => paintRough(plot, trace));
  chart.traces.filter(({ guide }) => guide).forEach((trace) => paintGuide(plot, trace));
  chart.traces.filter(({ line }) => line).forEach((trace) => paintLine(plot, trace));
  chart.traces.filter(({ marks }) => marks).forEach((trace) => paintMarks(plot, trace));
  if (chart.at !== null) paintPointer(plot, left + 6, width - EDGE.right, upper, lower);
  return across;
}

export function drawLine(pen, from, to, settings) {
  pen.line([from, to], settings);
}

/** Labels of the x axis; of a logarithmic one, the places themselves where there are few. */
function paintPlaces({ pen, colors, across, unit, ends, stops, names }, lower, width) {
  const about = Math.max(3, Math.floor(width / LABELS));
  const even = ends.logarithmic ? logTicks(ends.low, ends.high, about) : niceTicks(ends.low, ends.high, about);
  const places = ends.logarithmic && stops ? thinOut(stops, across, width) : even;
  places.forEach((tick, n) => {
    const x = across.place(tick);
    const text = n === places.length - 1 && !names ? `${shortNumber(tick)} ${unit}` : showTick(tick);
    const beyond = x + measure(text, 11) / 2 > width - 2;
    const align = beyond ? "right" : "center";
    drawLine(pen, [x, lower], [x, lower + 3], { stroke: colors.muted });
    pen.text(beyond ? width - 2 : x, lower + 13, text, { size: 11, align, fill: colors.muted });
  });
}

/** 1024 stays 1,024 and doesn't become 1.02k: places of a plot are often powers of two. */
function showTick(tick) {
  return Number.isInteger(tick) && Math.abs(tick) < 1e6 ? tick.toLocaleString("en") : shortNumber(tick);
}

/** Those places whose labels don't touch: every one, or every second, every third, … */
function thinOut(stops, across, width) {
  const half = (place) => measure(showTick(place), 11) / 2;
  const middle = (place) => Math.min(across.place(place), width - 2 - half(place));
  const fits = (place, n, places) =>
    !n || middle(place) - middle(places[n - 1]) > half(place) + half(places[n - 1]) + 6;
  const last = stops.length - 1;
  for (let every = 1; every <= last; every += 1) {
    const chosen = stops.filter((_, n) => (last - n) % every === 0);
    if (chosen.every(fits)) return chosen;
  }
  return stops.slice(-1);
}

function paintNames({ pen, colors, names }, left, width, top, height) {
  const text = (x, y, words, align) =>
    pen.text(x, y, shorten(words, width - 16), { size: 12, align, fill: colors.muted });
  text(8, top + EDGE.top, names.down, "left");
  text((left + 6 + width - EDGE.right) / 2, top + height - NAME / 2 - 1, names.across, "center");
}

/** The names of all traces below each other, for a picture by itself: [{ label, number, guide }, …]. */
export function paintLegend(pen, entries, width, top) {
  const colors = readColors();
  entries.forEach(({ label, number, guide }, n) => {
    const y = top + LEGEND_LINE * (n + 0.5);
    const { color, dash, shape } = runStyle(number);
    const how = guide ? { stroke: colors.muted, dash: guideDash(number) } : { stroke: color, thick: 2, dash };
    drawLine(pen, [16, y], [52, y], how);
    if (!guide) paintMark(pen, shape, 34, y, 3.6, { stroke: color, thick: 1.8 });
    pen.text(62, y, shorten(label, width - 80), { fill: colors.ink });
  });
}

/** What was logged, as it was: step by step, or from the lowest to the highest of each point. */
function paintRough({ pen, across, down, keep, logarithmic }, { line, number }) {
  const points = [];
  line.places.forEach((place, n) => {
    if (place === null || line.low[n] === null || (logarithmic && line.low[n] <= 0)) return;
    const x = across.place(place);
    points.push([x, keep(down.place(line.low[n]))]);
    if (line.high[n] !== line.low[n]) points.push([x, keep(down.place(line.high[n]))]);
  });
  pen.line(points, { stroke: runStyle(number).color, thick: 1, opacity: 0.22 });
}

/** The points of a line or of marks that have a place and a value that can be drawn. */
function findPoints({ places, values }, { across, down, logarithmic, ends }) {
  const there = places.map((place, n) => ({ place, value: values[n], n }));
  return there
    .filter(({ place, value }) => canDraw(place, ends.logarithmic) && canDraw(value, logarithmic))
    .map(({ place, value, n }) => ({ x: across.place(place), y: down.place(value), n }));
}

/** Whether a number is there, and above zero where the axis is logarithmic. */
export function canDraw(value, logarithmic) {
  return value !== null && value !== undefined && !(logarithmic && value <= 0);
}

function paintGuide(plot, { guide, number }) {
  const points = findPoints(guide, plot).map(({ x, y }) => [x, y]);
  plot.pen.line(points, { stroke: plot.colors.muted, thick: 1, dash: guideDash(number) });
}

function paintLine(plot, { line, number }) {
  const { color, dash, shape } = runStyle(number);
  const points = findPoints(line, plot).map(({ x, y }) => [x, plot.keep(y)]);
  if (points.length === 1) paintMark(plot.pen, shape, ...points[0], 3.6, { stroke: color, thick: 1.8 });
  plot.pen.line(points, { stroke: color, thick: 2, dash: plot.several ? dash : [] });
}

function paintMarks(plot, { marks, line, number }) {
  const { pen, colors, down } = plot;
  const { color, dash, shape } = runStyle(number);
  const points = findPoints(marks, plot);
  const joined = { stroke: color, thick: 1.5, opacity: 0.8, dash: plot.several ? dash : [] };
  if (!line)
    pen.line(
      points.map(({ x, y }) => [x, y]),
      joined,
    );
  for (const { x, y, n } of points) {
    const [low, high] = [marks.low[n], marks.high[n]];
    if (canDraw(low, false) && canDraw(high, plot.logarithmic)) {
      // an interval that goes to zero or below has no end on a logarithmic axis
      const foot = canDraw(low, plot.logarithmic) ? down.place(low) : Infinity;
      paintWhisker(pen, [x, plot.keep(foot)], [x, plot.keep(down.place(high))], color);
    }
    if (marks.many) continue; // marks that touch would be a band
    pen.rect(x - 4.5, y - 4.5, 9, 9, { fill: colors.panel, radius: 4.5 });
    paintMark(pen, shape, x, y, 3.2, { stroke: color, thick: n === marks.best ? 3 : 1.8 });
    if (n === marks.best) paintMark(pen, "circle", x, y, 7, { stroke: color, thick: 1.2 });
  }
}

export function paintWhisker(pen, from, to, stroke) {
  const flat = from[1] === to[1];
  const settings = { stroke, thick: 1.2, opacity: 0.75 };
  drawLine(pen, from, to, settings);
  for (const [x, y] of [from, to]) {
    drawLine(pen, flat ? [x, y - 3] : [x - 3, y], flat ? [x, y + 3] : [x + 3, y], settings);
  }
}

export function paintMark(pen, shape, x, y, size, settings) {
  markStrokes(shape, x, y, size).forEach((points) => pen.line(points, settings));
}

function paintPointer({ pen, colors, across, at, locked }, least, most, upper, lower) {
  const x = Math.min(most, Math.max(least, across.place(at)));
  const how = locked ? { thick: 1.5, dash: [] } : { thick: 1, dash: [3, 3] };
  drawLine(pen, [x, upper], [x, lower], { stroke: colors.ink, opacity: 0.7, ...how });
}
