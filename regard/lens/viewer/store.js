// What several views share: values by name, and who wants to know when they change.

export class Store {
  #values;
  #watchers = new Set();
  #changed = new Set();

  constructor(values) {
    this.#values = { ...values };
  }

  get values() {
    return this.#values;
  }

  /** Change some values; views are told once a frame, with the names of all that changed since. */
  set(changes) {
    const news = Object.keys(changes).filter((name) => !Object.is(this.#values[name], changes[name]));
    if (!news.length) return;
    Object.assign(this.#values, changes);
    if (!this.#changed.size) requestAnimationFrame(() => this.#tell());
    news.forEach((name) => this.#changed.add(name));
  }

  /** view(values, changed) is called now, with all names, and after each change. */
  watch(view) {
    this.#watchers.add(view);
    view(this.#values, new Set(Object.keys(this.#values)));
    return () => this.#watchers.delete(view);
  }

  #tell() {
    const changed = this.#changed;
    this.#changed = new Set();
    for (const view of this.#watchers) view(this.#values, changed);
  }
}
