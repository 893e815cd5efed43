// What a chart looks like: axes, lines, their rough edges, marks and the place that is pointed at, drawn by any pen.
// A trace is what one run has: { number, run, line, marks } (chart.js collects them).

import { measure, readColors } from "./pen.js";
import { markStrokes, runStyle } from "./runs.js";
import { logTicks, makeScale, niceTicks, shortNumber } from "./scale.js";

const EDGE = { top: 10, right: 14, bottom: 24 };
const ROOM = 0.25; // of the range of the lines, which their rough edges may take beyond it
const LABELS = 90; // pixels of the x axis for each label

/** The lowest and the highest of some values; null where there are none. */
export function bounds(values) {
  const there = values.filter((value) => value !== null && value !== undefined);
  return there.length ? [Math.min(...there), Math.max(...there)] : null;
}

/** What the y axis goes from and to; null where there is nothing to draw. */
function findRange(traces, logarithmic) {
  const smooth = traces.flatMap(({ line, marks }) => [line?.values, marks?.values, marks?.low, marks?.high].flat());
  const found = bounds(smooth);
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

/** A range that can be drawn: above zero where it is logarithmic, and never empty. */
function widen(low, high, least, logarithmic) {
  const from = logarithmic && low <= 0 ? Math.max(least, 1e-12) : low;
  if (high > from) return { low: from, high, logarithmic };
  if (logarithmic) return { low: from / 2, high: from * 2, logarithmic };
  const half = Math.abs(from) / 10 || 1;
  return { low: from - half, high: from + half, logarithmic };
}

/**
 * Draw a chart: { traces, ends: { low, high }, unit, several, logarithmic, at, locked } between top and top + height.
 * The scale of its x axis, or null where no run has anything.
 */
export function paintPlot(pen, chart, width, height, top) {
  const colors = readColors();
  const range = findRange(chart.traces, chart.logarithmic);
  if (!range) {
    pen.text(width / 2, top + height / 2, "no run that is shown has this", { align: "center", fill: colors.muted });
    return null;
  }
  const [upper, lower] = [top + EDGE.top, top + height - EDGE.bottom];
  const ticks = range.logarithmic ? logTicks(range.low, range.high, 5) : niceTicks(range.low, range.high, 4);
  const left = 8 + Math.max(22, ...ticks.map((tick) => measure(shortNumber(tick), 11)));
  const { low, high } = chart.ends;
  const ends = low === high ? { low: low - 1, high: high + 1 } : chart.ends;
  const across = makeScale(ends, left + 6, width - EDGE.right);
  const down = makeScale(range, lower - 3, upper + 3);
  const keep = (y) => Math.min(lower, Math.max(upper, y));
  const plot = { ...chart, pen, colors, across, down, keep };
  for (const tick of ticks) {
    const y = Math.round(down.place(tick)) + 0.5;
    pen.line(
      [
        [left, y],
        [width - EDGE.right + 6, y],
      ],
      { stroke: colors.line },
    );
    pen.text(left - 5, y, shortNumber(tick), { size: 11, align: "right", fill: colors.muted });
  }
  paintPlaces(plot, ends, lower, width);
  chart.traces.filter(({ line }) => line?.rough).forEach((trace) => paintRough(plot, trace));
  chart.traces.filter(({ line }) => line).forEach((trace) => paintLine(plot, trace));
  chart.traces.filter(({ marks }) => marks).forEach((trace) => paintMarks(plot, trace));
  if (chart.at !== null) paintPointer(plot, left + 6, width - EDGE.right, upper, lower);
  return across;
}

function paintPlaces({ pen, colors, across, unit }, ends, lower, width) {
  const places = niceTicks(ends.low, ends.high, Math.max(3, Math.floor(width / LABELS)));
  places.forEach((tick, n) => {
    const x = across.place(tick);
    const text = n === places.length - 1 ? `${shortNumber(tick)} ${unit}` : shortNumber(tick);
    const beyond = x + measure(text, 11) / 2 > width - 2;
    const align = beyond ? "right" : "center";
    pen.line(
      [
        [x, lower],
        [x, lower + 3],
      ],
      { stroke: colors.muted },
    );
    pen.text(beyond ? width - 2 : x, lower + 13, text, { size: 11, align, fill: colors.muted });
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
function findPoints({ places, values }, { across, down, logarithmic }) {
  const there = places.map((place, n) => ({ place, value: values[n], n }));
  return there
    .filter(({ place, value }) => place !== null && value !== null && !(logarithmic && value <= 0))
    .map(({ place, value, n }) => ({ x: across.place(place), y: down.place(value), n }));
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
    if (low !== null && high !== null && !(plot.logarithmic && low <= 0)) {
      pen.line(
        [
          [x, down.place(low)],
          [x, down.place(high)],
        ],
        { stroke: color, thick: 1.2, opacity: 0.55 },
      );
    }
    pen.rect(x - 4.5, y - 4.5, 9, 9, { fill: colors.panel, radius: 4.5 });
    paintMark(pen, shape, x, y, 3.2, { stroke: color, thick: n === marks.best ? 3 : 1.8 });
    if (n === marks.best) paintMark(pen, "circle", x, y, 7, { stroke: color, thick: 1.2 });
  }
}

export function paintMark(pen, shape, x, y, size, settings) {
  markStrokes(shape, x, y, size).forEach((points) => pen.line(points, settings));
}

function paintPointer({ pen, colors, across, at, locked }, least, most, upper, lower) {
  const x = Math.min(most, Math.max(least, across.place(at)));
  const how = locked ? { thick: 1.5, dash: [] } : { thick: 1, dash: [3, 3] };
  pen.line(
    [
      [x, upper],
      [x, lower],
    ],
    { stroke: colors.ink, opacity: 0.7, ...how },
  );
}
