import { ObjectStoreError } from "@holdfast/object-store";
import { keptObjects, objectTrailer, type Kept } from "./message.js";

/** The last write of one path: its commit is the object's etag. */
export type Written = Kept & { readonly commit: string; readonly atMs: number };

/** The last write of each path that a part of the history names, and where that part begins and ends. */
export type History = {
  /** The newest commit; null when the part is empty. */
  readonly tip: string | null;
  /** The commit before the oldest one; null when there is none. */
  readonly before: string | null;
  readonly written: ReadonlyMap<string, Written>;
};

const none: Kept = { metadata: Object.freeze({}) };

/**
 * The arguments of the `git log` that {@link parseHistory} reads: each commit on the branch itself, newest first, compared with the one before it on the
 * branch. What a merge brought counts as written by the merge, so that every clone finds the same write for a path whenever it looks.
 */
export const historyArgs = (tip: string, known: string | null): readonly string[] => [
  "log",
  ...["--first-parent", "--diff-merges=first-parent", "--raw", "-z", "--no-abbrev", "--no-renames", "--no-color"],
  `--format=%H%x00%P%x00%ct%x00%(trailers:key=${objectTrailer},valueonly,unfold,separator=%x0A)`,
  tip,
  ...(known === null ? [] : [`^${known}`]),
  "--",
];

/** Reads what `git log` printed. The first commit that names a path, by a change or by a trailer, is its last write. */
export function parseHistory(out: Buffer): History {
  const tokens = tokensOf(out);
  const written = new Map<string, Written>();
  let tip: string | null = null;
  let before: string | null = null;
  let at = 0;
  const next = (): Buffer => {
    const token = tokens[at++];
    if (token === undefined)
      throw new ObjectStoreError("CORRUPT", "the history of the branch ends in the middle of a commit");
    return token;
  };
  while (at < tokens.length) {
    const commit = next().toString("latin1");
    before = next().toString("latin1").split(" ")[0] || null;
    const atMs = Number(next().toString("latin1")) * 1_000;
    tip ??= commit;
    const kept = new Map(keptObjects(next().toString("utf8")).map(({ key, ...rest }) => [key, rest]));
    const paths = [...kept.keys()];
    while (isChange(tokens[at])) {
      at++;
      const path = decoded(next());
      if (path !== null) paths.push(path);
    }
    for (const path of paths) {
      if (!written.has(path)) written.set(path, { ...(kept.get(path) ?? none), commit, atMs });
    }
  }
  return { tip, before, written };
}

/** `:100644 100644 … M`, in the first of a commit after a newline. */
const isChange = (token: Buffer | undefined): boolean =>
  token !== undefined && (token[0] === 0x3a || (token[0] === 0x0a && token[1] === 0x3a));

const strict = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** A path as text, or null when it is no UTF-8: such a file is no object, since no key can name it. */
export function decoded(path: Buffer): string | null {
  try {
    return strict.decode(path);
  } catch {
    return null;
  }
}

/** What stands between zero bytes, each of which ends a token. */
export function tokensOf(out: Buffer): readonly Buffer[] {
  const tokens: Buffer[] = [];
  let from = 0;
  for (let end = out.indexOf(0); end !== -1; end = out.indexOf(0, from)) {
    tokens.push(out.subarray(from, end));
    from = end + 1;
  }
  return tokens;
}
