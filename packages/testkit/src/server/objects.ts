// What the small object servers share: objects in memory, ranges, pages.
import { createHash } from "node:crypto";

/** An object in memory. */
export interface StoredObject {
  readonly bytes: Buffer;
  readonly md5: Buffer;
  /** Grows with every write to the server. */
  readonly generation: number;
  readonly headers: Readonly<Record<string, string>>;
}

/** Objects by bucket and key: `bucket/key`. */
export type Objects = Map<string, StoredObject>;

/** The newest generation of each store: it does not go back when the object that had it is deleted. */
const newest = new WeakMap<Objects, number>();

/** @internal */
export function store(objects: Objects, name: string, bytes: Buffer, headers: Record<string, string>): StoredObject {
  // An object that a test put there itself counts too.
  const generation = 1 + Math.max(newest.get(objects) ?? 0, objects.get(name)?.generation ?? 0);
  newest.set(objects, generation);
  const stored = { bytes, md5: createHash("md5").update(bytes).digest(), generation, headers };
  objects.set(name, stored);
  return stored;
}

/** The bytes of a Range header: `bytes=a-b`, `a-`, `-n`; null without one, undefined when it cannot be satisfied. @internal */
export function rangeOf(header: string | undefined, size: number): { from: number; to: number } | null | undefined {
  const [, first = "", last = ""] = /^bytes=(\d*)-(\d*)$/.exec(header ?? "") ?? [];
  if (first === "" && last === "") return null;
  const from = first === "" ? Math.max(0, size - Number(last)) : Number(first);
  const to = first === "" || last === "" ? size - 1 : Math.min(Number(last), size - 1);
  return from > to || from >= size ? undefined : { from, to };
}

/** Keys of a bucket in the order of their bytes: after one, from one on, before one (empty: no bound), so many. @internal */
export function page(
  objects: Objects,
  o: {
    readonly bucket: string;
    readonly prefix: string;
    readonly after: string;
    readonly from?: string;
    readonly before?: string;
    readonly most: number;
  },
): { keys: string[]; next: string | undefined } {
  const { from = "", before = "" } = o;
  const begin = `${o.bucket}/`;
  const compare = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));
  const keys = [...objects.keys()]
    .filter((name) => name.startsWith(begin + o.prefix))
    .map((name) => name.slice(begin.length))
    .filter(
      (key) => compare(key, o.after) > 0 && compare(key, from) >= 0 && (before === "" || compare(key, before) < 0),
    )
    .sort(compare);
  const part = keys.slice(0, o.most);
  return { keys: part, next: keys.length > part.length ? part.at(-1) : undefined };
}
