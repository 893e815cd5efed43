// Numbers as people read them.

/** Up to so many significant digits, without an exponent where a few zeros do; a dash for what is none. */
export function show(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  const text = size < 1e-4 || size >= 1e7 ? value.toExponential(digits - 1) : String(Number(value.toPrecision(digits)));
  return text.replace("-", "−").replace(/e\+?/, "e").replace("e-", "e−");
}

/** A float32 by the fewest digits that tell it from all others; one that was rounded, by those that hold. */
export function digitsOf(value, exact) {
  return Number.isFinite(value) ? Number(value.toPrecision(exact ? 9 : 3)) : null;
}

/** A share of 1 in percent. */
export function percent(value, digits = 2) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  return `${show(100 * value, digits)} %`;
}

export function plural(count, word) {
  return `${count.toLocaleString("en")} ${word}${count === 1 ? "" : "s"}`;
}

/** A measured value: four digits, and thousands by their comma. */
export function showValue(value) {
  return Math.abs(value) >= 1000 && Math.abs(value) < 1e7 ? Math.round(value).toLocaleString("en") : show(value, 4);
}

/** The interval of a measured value, to stand behind it. */
export function showInterval(low, high) {
  return low === null || high === null ? "" : ` (${showValue(low)} to ${showValue(high)})`;
}
