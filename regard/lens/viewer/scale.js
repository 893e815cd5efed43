// Axes of charts: round numbers, and places for them.

import { show } from "./number.js";

/** Round numbers from low to high, about so many. */
export function niceTicks(low, high, about) {
  if (!(high > low)) return [low];
  const rough = (high - low) / Math.max(1, about);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough * 0.999);
  const first = Math.ceil(low / step - 1e-9);
  const found = [];
  for (let n = first; n * step <= high + step * 1e-9; n += 1) found.push(Number((n * step).toPrecision(12)));
  return found;
}

/** Powers of ten between two positive numbers, with 2 and 5 where there are few of them. */
export function logTicks(low, high, about) {
  const decades = Math.log10(high / low);
  const every = Math.max(1, Math.ceil(decades / about));
  const parts = decades < about / 2 ? [1, 2, 5] : [1];
  const found = [];
  for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power += every) {
    found.push(...parts.map((one) => Number((one * 10 ** power).toPrecision(6))));
  }
  return found.filter((one) => one >= low * 0.999 && one <= high * 1.001);
}

/** 1,200 as 1.2k, 3,000,000 as 3M: labels of an axis are short. */
export function shortNumber(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return `${show(value / 1e9)}G`;
  if (size >= 1e6) return `${show(value / 1e6)}M`;
  return size >= 1e4 ? `${show(value / 1e3)}k` : show(value);
}

/** From values to places: { low, high, logarithmic } becomes a function, with its inverse. */
export function makeScale({ low, high, logarithmic }, from, to) {
  const bend = logarithmic ? Math.log : (value) => value;
  const [first, last] = [bend(low), bend(high)];
  const span = last - first || 1;
  const place = (value) => from + ((bend(value) - first) / span) * (to - from);
  const value = (at) => {
    const bent = first + ((at - from) / (to - from || 1)) * span;
    return logarithmic ? Math.exp(bent) : bent;
  };
  return { place, value };
}

/** The mean of each value and its neighbors up to `reach` away; at both ends there are fewer of them, so that the
 * mean doesn't lag at the start and doesn't end in noise. Gaps stay gaps. */
export function smoothValues(values, reach) {
  if (!reach) return values;
  const sums = [0];
  const counts = [0];
  values.forEach((value, n) => {
    sums.push(sums[n] + (value ?? 0));
    counts.push(counts[n] + (value === null ? 0 : 1));
  });
  return values.map((value, n) => {
    if (value === null) return null;
    const first = Math.max(0, n - reach);
    const last = n + 1 + Math.min(reach, n, values.length - 1 - n);
    return (sums[last] - sums[first]) / (counts[last] - counts[first]);
  });
}
