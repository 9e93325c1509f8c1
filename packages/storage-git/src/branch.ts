import type { Instant } from "@holdfast/deadline-http";
import { ObjectStoreError } from "@holdfast/object-store";
import type { Clone } from "./clone.js";
import { commitStream, type NewCommit } from "./commit-stream.js";
import { historyArgs, parseHistory, type Written } from "./history.js";
import type { Settings } from "./options.js";
import { exchangeAgain } from "./rest.js";
import { nothing, parseTree, Snapshot, type Entry } from "./snapshot.js";

/** The name under which the clone keeps what was fetched. */
const fetched = "refs/holdfast/fetched";

/** The tracked branch as the remote has it, seen through the store's clone. */
export class Branch {
  readonly #settings: Settings;
  readonly #clone: Clone;
  readonly ref: string;

  constructor(settings: Settings, clone: Clone) {
    this.#settings = settings;
    this.#clone = clone;
    this.ref = `refs/heads/${settings.branch}`;
  }

  /**
   * The branch as it is at some moment after this was called. Asks the remote each time, because what another process has written is to be seen at
   * once; nothing is fetched when it has not moved. `since`: when the budget for failures began, if it has.
   */
  async settle(signal: AbortSignal, since: Instant | null = null): Promise<Snapshot> {
    await this.#clone.use(signal, () => Promise.resolve());
    const seen = await this.tipOf(this.ref, signal, since);
    return this.#clone.use(signal, async () => {
      if (this.#clone.snapshot.commit !== seen) this.#clone.snapshot = await this.#fetch(seen, signal, since);
      return this.#clone.snapshot;
    });
  }

  /** The commit that a ref of the remote names, or null. */
  async tipOf(ref: string, signal: AbortSignal, since: Instant | null = null): Promise<string | null> {
    const args = ["ls-remote", "--refs", this.#settings.remote.url, ref];
    const look = () => this.#clone.git.exchange("looking at the remote", args, { signal });
    const { stdout } = await exchangeAgain(this.#settings, signal, look, since);
    for (const line of stdout.toString("utf8").split("\n")) {
      const [commit = "", name] = line.split("\t");
      // A pattern of ls-remote also fits names that only end with it.
      if (name === ref && /^[0-9a-f]{40}$/.test(commit)) return commit;
      if (name === ref)
        throw new ObjectStoreError("UNSUPPORTED", "the remote has ids that are not SHA-1; use a repository with SHA-1");
    }
    return null;
  }

  /** Makes a commit in the clone; returns its id. */
  async commit(commit: NewCommit, signal: AbortSignal): Promise<string> {
    const input = commitStream(commit);
    const out = await this.#clone.use(signal, () =>
      this.#clone.git.local(["fast-import", "--quiet", "--force", "--done"], { signal, input }),
    );
    const id = out.toString("latin1").trim();
    if (!/^[0-9a-f]{40}$/.test(id)) throw new ObjectStoreError("UNAVAILABLE", "git fast-import named no commit");
    return id;
  }

  /** The branch is at a commit of ours now: saves fetching it. */
  landed(snapshot: Snapshot, signal: AbortSignal): Promise<void> {
    return this.#clone.use(signal, () => {
      this.#clone.snapshot = snapshot;
      return Promise.resolve();
    });
  }

  /** Whether a commit that the clone has is in the history of a snapshot. */
  async contains(snapshot: Snapshot, commit: string, signal: AbortSignal): Promise<boolean> {
    if (snapshot.commit === null || snapshot.commit === commit) return snapshot.commit === commit;
    const args = ["rev-list", "--count", "--max-count=1", commit, `^${snapshot.commit}`];
    const out = await this.#clone.git.local(args, { signal });
    return out.toString("latin1").trim() === "0";
  }

  /** The content of a file. */
  async read(entry: Entry, signal: AbortSignal): Promise<Uint8Array> {
    const out = await this.#clone.git.local(["cat-file", "blob", entry.blob], { signal });
    if (out.byteLength !== entry.size) {
      throw new ObjectStoreError(
        "CORRUPT",
        `${JSON.stringify(entry.path)} has ${out.byteLength} bytes in the clone, and ${entry.size} on the branch`,
      );
    }
    return new Uint8Array(out);
  }

  /** Under the tree lock. What is fetched may be newer than what was seen. */
  async #fetch(seen: string | null, signal: AbortSignal, since: Instant | null): Promise<Snapshot> {
    if (seen === null) return nothing;
    const { git, snapshot } = this.#clone;
    const args = ["fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-gc", "--force"];
    const refs = [this.#settings.remote.url, `+${this.ref}:${fetched}`];
    const fetch = () => git.exchange("fetching the branch", [...args, ...refs], { signal });
    await exchangeAgain(this.#settings, signal, fetch, since);
    const { tip, written } = await this.#history(snapshot, signal);
    const out = await git.local(["ls-tree", "-r", "-l", "-z", "--full-tree", tip], { signal });
    return new Snapshot(tip, parseTree(out, written), written);
  }

  /**
   * The last write of each path. What is known already is kept only when the new commits follow on it along the branch itself; after anything else (a
   * branch that was rewritten, or fast-forwarded to one that had merged it) the whole history is read, so that all clones find the same.
   */
  async #history(
    known: Snapshot,
    signal: AbortSignal,
  ): Promise<{ tip: string; written: ReadonlyMap<string, Written> }> {
    const { git } = this.#clone;
    if (known.commit !== null) {
      const news = parseHistory(await git.local(historyArgs(fetched, known.commit), { signal }));
      if (news.tip !== null && news.before === known.commit) {
        return { tip: news.tip, written: new Map([...known.written, ...news.written]) };
      }
    }
    const { tip, written } = parseHistory(await git.local(historyArgs(fetched, null), { signal }));
    if (tip === null) throw new ObjectStoreError("CORRUPT", "the branch that was fetched has no history");
    return { tip, written };
  }
}
