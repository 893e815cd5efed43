// The maps of a look: in groups (encoder, decoder, cross, a memory's reads and writes), by layer and head.

import { makeAxis, wordSpans } from "./axis.js";

export class Maps {
  #axes;
  #arrays;

  constructor({ axes, maps }, arrays) {
    this.#axes = axes;
    this.#arrays = arrays;
    this.groups = makeGroups(maps);
  }

  /** Whether words differ from tokens anywhere, so that there is something to switch. */
  get haveWords() {
    return Object.values(this.#axes).some((axis) => {
      const size = axis.tokens?.length ?? 0;
      return (wordSpans(axis, size)?.length ?? size) < size;
    });
  }

  get exact() {
    return this.groups.every(({ maps }) => maps.every((map) => this.#arrays.exact(map.array)));
  }

  /** The largest error of a drawn weight, as a share of the largest of its map. */
  get error() {
    return Math.max(0, ...this.groups.flatMap(({ maps }) => maps.map((map) => this.#arrays.error(map.array))));
  }

  /** Rows or columns of the largest map. */
  get longest() {
    return Math.max(
      ...this.groups.flatMap(({ maps }) => maps.flatMap((map) => this.#arrays.shape(map.array).slice(1))),
    );
  }

  axesOf(map, unit) {
    const [, rows, columns] = this.#arrays.shape(map.array);
    return {
      rowAxis: makeAxis(map.rows, this.#axes[map.rows], rows, unit),
      columnAxis: makeAxis(map.columns, this.#axes[map.columns], columns, unit),
    };
  }

  /** The weights of a head, or of the mean of all (head === map.heads): { rows, columns, values, top, exact, … }. */
  async weights(map, head, unit) {
    const [, rows, columns] = this.#arrays.shape(map.array);
    const values =
      head < map.heads
        ? await this.#arrays.slice(map.array, head)
        : mean(await this.#arrays.load(map.array), map.heads);
    const { rowAxis, columnAxis } = this.axesOf(map, unit);
    const merged = mergeWords(values, rows, columns, rowAxis, columnAxis);
    const exact = this.#arrays.exact(map.array);
    return {
      map,
      head,
      unit,
      rowAxis,
      columnAxis,
      rows: rowAxis.size,
      columns: columnAxis.size,
      values: merged,
      top: largest(merged),
      exact,
    };
  }

  /** Thumbnails of a map's heads, each { rows, columns, values, top }; those that the page has ready, if it has. */
  async thumbnails(map) {
    const small = await this.#arrays.small(map.array);
    if (small) {
      const size = small.rows * small.columns;
      return Array.from({ length: small.count }, (_, head) => ({
        ...small,
        values: small.values.subarray(head * size, (head + 1) * size),
        top: 1,
      }));
    }
    const [heads, rows, columns] = this.#arrays.shape(map.array);
    const slices = await Promise.all(Array.from({ length: heads }, (_, head) => this.#arrays.slice(map.array, head)));
    return slices.map((values) => ({ rows, columns, values, top: largest(values) }));
  }
}

/** "3.2" is head 2 of layer 3, as on the command line; the mean has no number. */
export function headName(map, head) {
  return `${map.layer}.${head < map.heads ? head : "mean"}`;
}

export function headLabel(map, head) {
  const which = map.heads === 1 ? "" : head < map.heads ? `, head ${head}` : ", mean of heads";
  return `layer ${map.layer}${which}`;
}

function makeGroups(maps) {
  const groups = new Map();
  for (const map of maps) {
    const key = JSON.stringify([map.stack, map.part, map.what]);
    if (!groups.has(key)) groups.set(key, { label: groupLabel(map), maps: [] });
    groups.get(key).maps.push(map);
  }
  const found = [...groups.values()];
  for (const group of found) {
    const [{ stack, part, what }] = group.maps;
    if (found.some((other) => other !== group && other.label === group.label)) group.label = `${stack} ${part} ${what}`;
  }
  return found;
}

function groupLabel({ stack, part, what }) {
  const place = part === "cross" ? "cross" : stack;
  return what === "weights" ? place : `${place} ${what.replace(/_weights$/, "s")}`;
}

function mean(values, heads) {
  const size = values.length / heads;
  const found = new Float32Array(size);
  for (let n = 0; n < size; n += 1) {
    let sum = 0;
    for (let head = 0; head < heads; head += 1) sum += values[head * size + n];
    found[n] = sum / heads;
  }
  return found;
}

/** What a word's pieces get is added, what they give is averaged: a row still sums to 1. */
export function mergeWords(values, rows, columns, rowAxis, columnAxis) {
  if (!rowAxis.spans && !columnAxis.spans) return values;
  const down = rowAxis.spans ?? Array.from({ length: rows }, (_, n) => [n, n + 1]);
  const across = columnAxis.spans ?? Array.from({ length: columns }, (_, n) => [n, n + 1]);
  const merged = new Float32Array(down.length * across.length);
  down.forEach(([top, bottom], row) => {
    across.forEach(([left, right], column) => {
      let sum = 0;
      for (let y = top; y < bottom; y += 1) for (let x = left; x < right; x += 1) sum += values[y * columns + x];
      merged[row * across.length + column] = sum / (bottom - top);
    });
  });
  return merged;
}

function largest(values) {
  let top = 0;
  for (const value of values) if (Math.abs(value) > top && Number.isFinite(value)) top = Math.abs(value);
  return top;
}

/** Where a row looks most, or, without a row, what looks most at a column: at most so many { place, value }. */
export function strongest({ rows, columns, values }, row, column, most) {
  const value = (n) => (row === null ? values[n * columns + column] : values[row * columns + n]);
  return Array.from({ length: row === null ? rows : columns }, (_, place) => ({ place, value: value(place) }))
    .filter((each) => each.value > 0)
    .sort((a, b) => b.value - a.value)
    .slice(0, most);
}
