import type { Resource } from "./resource.js";

const most = 1_000;

/**
 * What GCS has said of objects, the last ones that were read: their bytes come without it, and a range of one pack is followed by another.
 * Never stale: each answer with bytes names the object's generation and that of its metadata, and only of both together is this true.
 */
export class Remembered {
  readonly #known = new Map<string, Resource>();

  get(key: string, generation: string, metageneration: string): Resource | undefined {
    const known = this.#known.get(key);
    if (metageneration === "" || known?.generation !== generation || known.metageneration !== metageneration)
      return undefined;
    // Last in the map is the most recently used; the least recently used one is removed first.
    this.#known.delete(key);
    this.#known.set(key, known);
    return known;
  }

  put(key: string, resource: Resource): void {
    this.#known.delete(key);
    this.#known.set(key, resource);
    const [oldest] = this.#known.keys();
    if (this.#known.size > most && oldest !== undefined) this.#known.delete(oldest);
  }
}
