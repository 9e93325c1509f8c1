import { createHash } from "node:crypto";
import { compareKeys, ObjectStoreError, type ObjectInfo } from "@holdfast/object-store";
import type { Changes } from "./commit-stream.js";
import { decoded, tokensOf, type Written } from "./history.js";
import { NameIndex } from "./names.js";
import { checkPath } from "./paths.js";

/** What the tree of a commit has at one path. */
export type Entry = {
  readonly path: string;
  /** An object is a file; nothing else of a tree is. */
  readonly kind: "file" | "link" | "submodule";
  readonly executable: boolean;
  /** The id of the content. */
  readonly blob: string;
  readonly size: number;
  readonly written: Written;
};

/** The branch at one commit. It never changes: whoever reads it is not disturbed by what others write meanwhile. */
export class Snapshot {
  /** Null: the branch has no commit. */
  readonly commit: string | null;
  /** The last write of every path that was ever on the branch: of those that are gone, too. */
  readonly written: ReadonlyMap<string, Written>;
  readonly #entries: ReadonlyMap<string, Entry>;
  #sorted: readonly Entry[] | null = null;

  constructor(commit: string | null, entries: ReadonlyMap<string, Entry>, written: ReadonlyMap<string, Written>) {
    this.commit = commit;
    this.#entries = entries;
    this.written = written;
  }

  /** What is at a path, file or not. */
  entry(path: string): Entry | null {
    return this.#entries.get(path) ?? null;
  }

  /** The file at a path, or null. `INVALID_KEY` for a symbolic link or a submodule, which no object is. */
  file(path: string): Entry | null {
    const entry = this.entry(path);
    if (entry !== null && entry.kind !== "file") throw notAFile(entry);
    return entry;
  }

  /** All files, in the byte order of their paths. What no key can name, and what is no file, is left out. */
  files(): readonly Entry[] {
    this.#sorted ??= [...this.#entries.values()]
      .filter(({ kind }) => kind === "file")
      .sort((a, b) => compareKeys(a.path, b.path));
    return this.#sorted;
  }

  /** The names of what stays when these changes are made, without what they add. */
  names(changes: Changes): NameIndex {
    const index = new NameIndex();
    for (const { path } of this.#entries.values()) if (changes.get(path)?.do !== "remove") index.add(path);
    return index;
  }

  /** Refuses changes after which the tree could not be checked out everywhere, with `INVALID_KEY`: see {@link checkPath} and {@link NameIndex}. */
  checkChanges(changes: Changes): void {
    let names: NameIndex | null = null;
    for (const [path, change] of changes) {
      checkPath(path);
      if (this.file(path) !== null || change.do === "remove") continue;
      names ??= this.names(changes);
      names.check(path);
      names.add(path);
    }
  }

  /** The branch after a commit of ours that was made on this snapshot. */
  after(commit: string, atMs: number, changes: Changes): Snapshot {
    const entries = new Map(this.#entries);
    const written = new Map(this.written);
    for (const [path, change] of changes) {
      const kept = change.do === "write" && change.kept !== null ? change.kept : { metadata: Object.freeze({}) };
      const { metadata, contentType } = kept as { metadata: Written["metadata"]; contentType?: string };
      const write: Written = { commit, atMs, metadata, ...(contentType === undefined ? {} : { contentType }) };
      written.set(path, write);
      if (change.do === "remove") entries.delete(path);
      else {
        const { bytes, executable } = change;
        const size = bytes.byteLength;
        entries.set(path, { path, kind: "file", executable, blob: blobId(bytes), size, written: write });
      }
    }
    return new Snapshot(commit, entries, written);
  }
}

/** The branch before its first commit. */
export const nothing = new Snapshot(null, new Map(), new Map());

function notAFile({ path, kind }: Entry): ObjectStoreError {
  const what = kind === "link" ? "a symbolic link" : "a submodule";
  return new ObjectStoreError(
    "INVALID_KEY",
    `${JSON.stringify(path)} is ${what} on the branch, and no object; use another path, or replace it by a file with git`,
  );
}

/** What the contract reports of a file. */
export const infoOf = ({ path, size, written }: Entry): ObjectInfo => ({
  key: path,
  size,
  etag: written.commit,
  metadata: written.metadata,
  modifiedAtMs: written.atMs,
});

/** The id that git gives to content. */
export function blobId(bytes: Uint8Array): string {
  return createHash("sha1").update(`blob ${bytes.byteLength}\0`).update(bytes).digest("hex");
}

const kinds: Readonly<Record<string, Pick<Entry, "kind" | "executable">>> = {
  "100644": { kind: "file", executable: false },
  "100664": { kind: "file", executable: false },
  "100755": { kind: "file", executable: true },
  "120000": { kind: "link", executable: false },
  "160000": { kind: "submodule", executable: false },
};

/**
 * Reads what `git ls-tree -r -l -z` printed. What is no UTF-8 is left out. `CORRUPT` for a path that the history does not name, since two
 * objects could then have one etag.
 */
export function parseTree(out: Buffer, written: ReadonlyMap<string, Written>): Map<string, Entry> {
  const entries = new Map<string, Entry>();
  for (const line of tokensOf(out)) {
    const tab = line.indexOf(0x09);
    const [mode = "", , blob = "", size = ""] = line.subarray(0, tab).toString("latin1").split(/ +/);
    const path = decoded(line.subarray(tab + 1));
    const kind = kinds[mode];
    if (path === null || kind === undefined) continue;
    const write = written.get(path);
    if (write === undefined) {
      throw new ObjectStoreError(
        "CORRUPT",
        `the history of the branch does not name ${JSON.stringify(path)}, which is on it`,
      );
    }
    entries.set(path, { path, ...kind, blob, size: Number(size) || 0, written: write });
  }
  return entries;
}
