import { createLimiter, uniqueId, type Limiter } from "@holdfast/object-store";
import type { Branch } from "./branch.js";
import type { Clone } from "./clone.js";
import type { Change, Changes } from "./commit-stream.js";
import { land, type Progress } from "./land.js";
import { DeadLocks } from "./dead-lock.js";
import { commitMessage } from "./message.js";
import type { Settings } from "./options.js";
import { push } from "./push.js";
import { blobId, type Entry, type Snapshot } from "./snapshot.js";

/** What a commit is about. */
export type Words = { readonly subject: string; readonly lines: readonly string[] };
/** How a call that writes ends and what it reports when it is cut short. */
export type WriteCall = { readonly signal: AbortSignal; readonly progress: Progress };
/** Where a write ended: landed as `commit`, or not, because the branch had moved to `moved`. */
export type WriteEnd =
  | { readonly commit: string; readonly at: Snapshot; readonly moved?: undefined }
  | { readonly moved: Snapshot; readonly commit?: undefined };

/** Makes commits and pushes them, one writer of the store after the other. */
export class Writer {
  /** The writer lock: held by one writer from its look at the remote to the end of its push. It is in memory, so it ends with the process. */
  readonly lock: Limiter = createLimiter(1);
  readonly #settings: Settings;
  readonly #clone: Clone;
  readonly #branch: Branch;
  readonly #deadLocks: DeadLocks;

  constructor(settings: Settings, clone: Clone, branch: Branch) {
    this.#settings = settings;
    this.#deadLocks = new DeadLocks(settings);
    this.#clone = clone;
    this.#branch = branch;
  }

  /** Commits changes on a snapshot and pushes them to the tracked branch. `INVALID_KEY` for changes that may not be. */
  async write(on: Snapshot, changes: Changes, words: Words, call: WriteCall): Promise<WriteEnd> {
    const made = await this.#make(on, changes, words, call.signal);
    const last: { seen: Snapshot | null } = { seen: null };
    const look = async (since: Parameters<Branch["settle"]>[1]) => {
      const seen = (last.seen = await this.#branch.settle(call.signal, since));
      if (await this.#branch.contains(seen, made.commit, call.signal)) return "contains" as const;
      return seen.commit === on.commit ? ("same" as const) : ("moved" as const);
    };
    const end = await land(
      this.#settings,
      { push: this.#pushing(this.#branch.ref, on.commit, made.commit, call), look },
      call,
    );
    if (end === "moved") return { moved: last.seen ?? on };
    const after = last.seen ?? on.after(made.commit, made.atMs, changes);
    if (last.seen === null) await this.#branch.landed(after, call.signal);
    return { commit: made.commit, at: after };
  }

  /**
   * Commits changes on a snapshot and pushes them to a branch beside the tracked one, which is at `tip` (null: it is not there). `moved`: another has made or moved
   * it. The commit's id, and the branch as it is then.
   */
  async writeBeside(
    on: Snapshot,
    o: { readonly ref: string; readonly tip: string | null; readonly changes: Changes; readonly words: Words },
    call: WriteCall,
  ): Promise<{ readonly commit: string; readonly at: Snapshot } | "moved"> {
    const made = await this.#make(on, o.changes, o.words, call.signal);
    const look = async (since: Parameters<Branch["tipOf"]>[2]) => {
      const tip = await this.#branch.tipOf(o.ref, call.signal, since);
      if (tip === made.commit) return "contains" as const;
      return tip === o.tip ? ("same" as const) : ("moved" as const);
    };
    const end = await land(this.#settings, { push: this.#pushing(o.ref, o.tip, made.commit, call), look }, call);
    return end === "moved" ? end : { commit: made.commit, at: on.after(made.commit, made.atMs, o.changes) };
  }

  async #make(
    on: Snapshot,
    changes: Changes,
    words: Words,
    signal: AbortSignal,
  ): Promise<{ commit: string; atMs: number }> {
    on.checkChanges(changes);
    const { clock, random, author } = this.#settings;
    const objects = [...changes.values()].flatMap((change) =>
      change.do === "write" && change.kept !== null ? [change.kept] : [],
    );
    const message = commitMessage({ ...words, objects, writeId: uniqueId(random) });
    const atSeconds = Math.floor(clock.wallMs() / 1_000);
    const commit = await this.#branch.commit({ parent: on.commit, changes, message, author, atSeconds }, signal);
    return { commit, atMs: atSeconds * 1_000 };
  }

  /** Every attempt pushes the same commit. */
  #pushing(ref: string, from: string | null, to: string, { signal }: WriteCall): () => ReturnType<typeof push> {
    return async () => {
      const end = await push(this.#clone.git, { url: this.#settings.remote.url, ref, from, to }, signal);
      if (end.e === "refused" && end.passing) await this.#deadLocks.clear(ref);
      return end;
    };
  }
}

/** What a write of these bytes does at a path: the file's mode stays as it is. */
export const writeOf = (
  there: Entry | null,
  bytes: Uint8Array,
  kept: Extract<Change, { do: "write" }>["kept"],
): Change => ({
  do: "write",
  bytes,
  executable: there?.executable ?? false,
  kept,
});

/** Those of the changes that change something on a snapshot. */
export function effective(on: Snapshot, changes: Changes): Changes {
  return new Map([...changes].filter(([path, change]) => !isSame(on.file(path), change)));
}

/** Whether a change would leave a path as it is. */
export function isSame(there: Pick<Entry, "blob"> | null, change: Change): boolean {
  return change.do === "remove" ? there === null : there !== null && there.blob === blobId(change.bytes);
}
