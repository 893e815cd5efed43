// Arrays of a page: base64 chunks in blocks that no browser runs, unpacked one by one when they are asked for.
// regard/lens/chunk.py writes them. A figure's `arrays` has:
//   await arrays.load("name")      all values, a Float32Array; arrays.shape("name") says how they lie
//   await arrays.slice("name", 3)  those of one index of the first axis (one head)
//   arrays.exact("name")           false where they were rounded for drawing

const KEPT = 16 * 1024 * 1024; // values that stay unpacked

/** The text of a block of the page, as soon as the browser has read all of it. */
function readBlock(id) {
  return new Promise((resolve, reject) => {
    const look = () => {
      const block = document.getElementById(id);
      // a block that is still being read is there, but nothing comes after it yet
      if (block && (block.nextElementSibling || document.readyState !== "loading")) resolve(block.textContent);
      else if (document.readyState !== "loading") reject(new Error(`${id} is missing: the file isn't whole`));
      else setTimeout(look, 4);
    };
    look();
  });
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  return Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
}

/** Written straight into the stream: a Blob would go through another process first. */
async function inflate(bytes) {
  const stream = new DecompressionStream("deflate-raw");
  const writer = stream.writable.getWriter();
  writer.write(bytes);
  writer.close();
  return new Uint8Array(await new Response(stream.readable).arrayBuffer());
}

async function readChunk(number) {
  return inflate(fromBase64(await readBlock(`chunk-${number}`)));
}

/** The bytes of all numbers lie apart, first bytes first; a number's four bytes are put together again. */
function joinBytes(bytes) {
  const count = bytes.length / 4;
  const joined = new Uint8Array(bytes.length);
  for (let n = 0; n < count; n += 1) {
    for (let place = 0; place < 4; place += 1) joined[4 * n + place] = bytes[place * count + n];
  }
  return new Float32Array(joined.buffer);
}

/** What each level stands for. 255 is what was no finite number. */
function levelValues(levels, top, signed) {
  const values = new Float32Array(256).fill(NaN);
  const middle = signed ? levels / 2 : 0;
  for (let level = 0; level <= levels; level += 1) {
    const root = (level - middle) / (levels - middle);
    values[level] = Math.sign(root) * root * root * top;
  }
  return values;
}

function fromLevels(bytes, levels, top, signed) {
  const values = levelValues(levels, top, signed);
  const found = new Float32Array(bytes.length);
  for (let n = 0; n < bytes.length; n += 1) found[n] = values[bytes[n]];
  return found;
}

export class Arrays {
  #entries;
  #most; // slices that are kept
  #kept = new Map(); // promises by name and index, the one that was used last at the end

  constructor(entries) {
    this.#entries = entries;
    const sizes = Object.values(entries).map(({ shape }) => shape.slice(-2).reduce((a, b) => a * b, 1));
    this.#most = Math.max(16, Math.floor(KEPT / Math.max(1, ...sizes)));
  }

  #entry(name) {
    if (!Object.hasOwn(this.#entries, name)) throw new Error(`there is no array ${name}`);
    return this.#entries[name];
  }

  shape(name) {
    return this.#entry(name).shape;
  }

  exact(name) {
    return this.#entry(name).form === "float32";
  }

  /** How far a drawn value may be from the true one, as a share of the largest of its map. */
  error(name) {
    const { form, levels, signed } = this.#entry(name);
    return form === "float32" ? 0 : 1 / (signed ? levels / 2 : levels);
  }

  slice(name, index) {
    return this.#remember(`${index} ${name}`, () => this.#unpack(name, index));
  }

  async load(name) {
    const { shape } = this.#entry(name);
    if (shape.length !== 3) return this.slice(name, 0);
    const parts = await Promise.all(Array.from({ length: shape[0] }, (_, index) => this.slice(name, index)));
    const all = new Float32Array(shape.reduce((a, b) => a * b, 1));
    parts.forEach((part, index) => all.set(part, index * shape[1] * shape[2]));
    return all;
  }

  /** Small pictures of all indices of the first axis: { rows, columns, values } of shares of the largest, or null. */
  async small(name) {
    const { small, shape } = this.#entry(name);
    if (!small) return null;
    const values = await this.#remember(`small ${name}`, async () =>
      fromLevels(await readChunk(small.chunk), small.levels, 1, false),
    );
    const [rows, columns] = small.shape;
    return { rows, columns, values, count: shape[0] };
  }

  async #unpack(name, index) {
    const { form, first, levels, tops, signed } = this.#entry(name);
    const bytes = await readChunk(first + index);
    return form === "float32" ? joinBytes(bytes) : fromLevels(bytes, levels, tops[index], signed);
  }

  #remember(key, make) {
    const found = this.#kept.get(key) ?? make();
    this.#kept.delete(key);
    this.#kept.set(key, found);
    if (this.#kept.size > this.#most) this.#kept.delete(this.#kept.keys().next().value);
    return found;
  }
}
