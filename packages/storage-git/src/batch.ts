import {
  checkBodySize,
  collectBody,
  compareKeys,
  createLimiter,
  ObjectStoreError,
  type Body,
} from "@holdfast/object-store";
import type { Change } from "./commit-stream.js";
import { ConcurrencyConflictError } from "./errors.js";
import { checkSubject } from "./message.js";
import type { NameIndex } from "./names.js";
import { checkPath } from "./paths.js";
import type { Tools } from "./put.js";
import { checkBranch } from "./remote.js";
import type { Snapshot } from "./snapshot.js";
import { effective, isSame, writeOf, type WriteCall, type WriteEnd } from "./writer.js";

/** How one change is made. */
export type GitChangeOptions = {
  /**
   * The commit that the change was decided on: it is made only while the branch is still at that commit. Null or absent: whatever the branch is at.
   * In a batch, one change with a base makes the whole batch conditional.
   */
  readonly baseRevision?: string | null;
  /** One line for the commit's message; default `write PATH` or `remove PATH`. */
  readonly message?: string;
  /**
   * Puts the change on a branch of its own, for review, and not on the tracked branch. It must not exist yet. In a batch, what was changed before is landed
   * first, and the branch begins there.
   */
  readonly branch?: string;
};

/** What one change did. */
export type GitChange = {
  /** False when what was there was the same already. */
  readonly changed: boolean;
};

/** What the body of a batch works with. Reads see what the batch has changed so far, and ask the remote nothing. */
export interface GitBatch {
  /** The commit that the batch is on, with which `baseRevision` is compared; null when the branch has none. A split moves it. */
  readonly revision: string | null;
  /** The content of a file, or null. Errors: `INVALID_KEY` for what is no path, a symbolic link or a submodule. */
  read(path: string): Promise<Uint8Array | null>;
  /** The paths that begin with `prefix` (default: all), in byte order. */
  list(prefix?: string): Promise<readonly string[]>;
  /**
   * Changes a file, or makes it; the last change of a path counts. `ConcurrencyConflictError` when `baseRevision` is not {@link GitBatch.revision}; the
   * batch is discarded then, whatever its body does. `INVALID_KEY`, `TOO_LARGE`, `BODY_MISMATCH`: only this change is refused, and the body may continue.
   */
  write(path: string, body: Body, o?: GitChangeOptions): Promise<GitChange>;
  /** Removes a file; that there is none is no error. Errors as for `write`. */
  remove(path: string, o?: GitChangeOptions): Promise<GitChange>;
}

/** One batch, from its look at the remote to its landing. Belongs to the writer that holds the writer lock. */
export class OpenBatch implements GitBatch {
  readonly #tools: Tools;
  readonly #call: WriteCall;
  readonly #subject: string;
  /** Whether the message has a line for each change: that of a single change is its subject alone. */
  readonly #isList: boolean;
  /** One operation after the other, in the order in which they were called. */
  readonly #inTurn = createLimiter(1);
  readonly #beside = new Map<string, Snapshot>();
  #on: Snapshot;
  #staged = new Map<string, Change>();
  #names: NameIndex | null = null;
  #lines: string[] = [];
  #firstConditional: string | null = null;
  /** Why nothing of what is staged will land, when that is decided. */
  #failure: Error | null = null;
  #closed = false;
  readonly commits: string[] = [];

  constructor(tools: Tools, on: Snapshot, o: { readonly subject: string; readonly isList: boolean }, call: WriteCall) {
    this.#tools = tools;
    this.#on = on;
    this.#subject = o.subject;
    this.#isList = o.isList;
    this.#call = call;
  }

  get revision(): string | null {
    return this.#on.commit;
  }

  /** False once the batch has ended: whatever its body has left running is no part of it. */
  get isOpen(): boolean {
    return !this.#closed;
  }

  read(path: string): Promise<Uint8Array | null> {
    return this.#turn(async () => {
      checkPath(path);
      const staged = this.#staged.get(path);
      if (staged !== undefined) return staged.do === "write" ? staged.bytes.slice() : null;
      const file = this.#on.file(path);
      return file === null ? null : this.#tools.branch.read(file, this.#call.signal);
    });
  }

  list(prefix = ""): Promise<readonly string[]> {
    return this.#turn(() => {
      const there = new Map([...this.#on.files()].map(({ path }) => [path, true]));
      for (const [path, change] of this.#staged) there.set(path, change.do === "write");
      const paths = [...there].filter(([path, is]) => is && path.startsWith(prefix)).map(([path]) => path);
      return Promise.resolve(paths.sort(compareKeys));
    });
  }

  write(path: string, body: Body, o: GitChangeOptions = {}): Promise<GitChange> {
    return this.#change(path, o, async () => {
      checkBodySize(body, this.#tools.settings.capabilities.maxObjectBytes);
      const bytes = await collectBody(body, this.#call);
      return writeOf(this.#on.file(path), bytes, null);
    });
  }

  remove(path: string, o: GitChangeOptions = {}): Promise<GitChange> {
    return this.#change(path, o, () => Promise.resolve({ do: "remove" }));
  }

  /** Decides that nothing lands: what a joined batch threw must not land in part, even if the body around it catches that. */
  fail(error: unknown): void {
    this.#failure ??= error instanceof Error ? error : new Error(String(error), { cause: error });
  }

  /** Lands what is staged, as one commit, and ends the batch. */
  async finish(): Promise<void> {
    this.#closed = true;
    await this.#inTurn(() => this.#landStaged(), this.#call.signal);
  }

  /** Ends the batch; what is staged is gone. */
  discard(): void {
    this.#closed = true;
    this.#staged.clear();
  }

  #turn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#closed) {
      const error = new ObjectStoreError("UNSUPPORTED", "the batch has ended; await everything inside its body");
      return Promise.reject(error);
    }
    return this.#inTurn(() => {
      if (this.#failure !== null) throw this.#failure;
      return work();
    }, this.#call.signal);
  }

  #change(path: string, o: GitChangeOptions, of: () => Promise<Change>): Promise<GitChange> {
    return this.#turn(async () => {
      checkPath(path);
      if (o.message !== undefined) checkSubject(o.message, "message");
      if (o.branch !== undefined) checkBranch(o.branch, "branch");
      await this.#guard(path, o.baseRevision ?? null);
      const change = await of();
      const line = o.message ?? `${change.do} ${path}`;
      return o.branch === undefined ? this.#stage(path, change, line) : this.#writeBeside(path, change, line, o.branch);
    });
  }

  /** Compares a base with the commit that the batch is on, and remembers the first change that had one. */
  async #guard(path: string, base: string | null): Promise<void> {
    if (base === null) return;
    if (base !== this.#on.commit) throw (this.#failure = await this.#conflict(path, this.#on));
    this.#firstConditional ??= path;
  }

  #stage(path: string, change: Change, line: string): GitChange {
    const before = this.#staged.get(path);
    const there = this.#on.file(path);
    const changed = before === undefined ? !isSame(there, change) : !isSameChange(before, change);
    const isThere = before === undefined ? there !== null : before.do === "write";
    this.#rename(path, isThere, change.do === "write");
    this.#staged.set(path, change);
    if (changed) this.#lines.push(line);
    return { changed };
  }

  /** Keeps the names of the staged tree, and refuses one that cannot be added to it. */
  #rename(path: string, isThere: boolean, stays: boolean): void {
    if (isThere === stays) return;
    this.#names ??= this.#on.names(new Map());
    if (stays) this.#names.check(path);
    if (stays) this.#names.add(path);
    else this.#names.remove(path);
  }

  /** A split: what is staged lands first, so that the review branch begins with it. */
  async #writeBeside(path: string, change: Change, line: string, branch: string): Promise<GitChange> {
    const { settings, writer } = this.#tools;
    if (branch === settings.branch) {
      throw new ObjectStoreError(
        "CONFIG_INVALID",
        `branch ${branch} is the tracked branch; leave it out, or name another one`,
      );
    }
    await this.#landStaged();
    const earlier = this.#beside.get(branch);
    const on = earlier ?? this.#on;
    if (on.commit === null) {
      const advice = "write something to it first";
      throw new ObjectStoreError(
        "PRECONDITION_FAILED",
        `branch ${settings.branch} has no commit to begin ${branch} with; ${advice}`,
      );
    }
    if (isSame(on.file(path), change)) return { changed: false };
    const ref = `refs/heads/${branch}`;
    const o = {
      ref,
      tip: earlier?.commit ?? null,
      changes: new Map([[path, change]]),
      words: { subject: line, lines: [] },
    };
    const end = await writer.writeBeside(on, o, this.#call);
    if (end === "moved") {
      throw new ObjectStoreError(
        "PRECONDITION_FAILED",
        `branch ${branch} is there already, or has been moved; use another name`,
      );
    }
    this.#beside.set(branch, end.at);
    return { changed: true };
  }

  /** Makes one commit of what is staged and pushes it; what fails here is how the whole batch ends. */
  async #landStaged(): Promise<void> {
    if (this.#failure !== null) throw this.#failure;
    try {
      await this.#landOnce();
    } catch (error) {
      this.fail(error);
      throw error;
    }
    this.#staged = new Map();
    this.#names = null;
    this.#lines = [];
    this.#firstConditional = null;
  }

  async #landOnce(): Promise<void> {
    let end = await this.#push(this.#on);
    if (end.moved !== undefined) {
      if (this.#firstConditional !== null) throw await this.#conflict(this.#firstConditional, end.moved);
      // All of it is unconditional: the last writer wins, once.
      end = await this.#push(end.moved);
    }
    if (end.moved !== undefined) {
      const { branch } = this.#tools.settings;
      throw new ObjectStoreError(
        "UNAVAILABLE",
        `branch ${branch} was moved by other writers twice while this was pushed; nothing was written: try again`,
      );
    }
    this.#on = end.at;
    if (end.commit !== null) this.commits.push(end.commit);
  }

  /** Pushes what changes something on a snapshot. */
  async #push(
    on: Snapshot,
  ): Promise<WriteEnd | { readonly commit: null; readonly at: Snapshot; readonly moved?: undefined }> {
    const changes = effective(on, this.#staged);
    if (changes.size === 0) return { commit: null, at: on };
    return this.#tools.writer.write(
      on,
      changes,
      { subject: this.#subject, lines: this.#isList ? this.#lines : [] },
      this.#call,
    );
  }

  async #conflict(path: string, at: Snapshot): Promise<ConcurrencyConflictError> {
    const there = at.entry(path);
    const current = there?.kind === "file" ? await this.#tools.branch.read(there, this.#call.signal) : null;
    return new ConcurrencyConflictError({ path, current, head: at.commit });
  }
}

function isSameChange(a: Change, b: Change): boolean {
  if (a.do === "remove" || b.do === "remove") return a.do === b.do;
  return Buffer.compare(a.bytes, b.bytes) === 0;
}
