// Goal: `created` means durable, a name is never seen as stored before it is, and an aborted put says the truth. Method: the store over
// an Io that records the order of operations, fails one, or holds one.
import { mkdir, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { putVerified } from "@holdfast/object-store";
import { FsStore } from "../../src/fs-store.js";
import { bytesOf, freshDirectory, open, recorder, stagedFiles, until, type Recorder } from "./support.js";

async function fresh(): Promise<{ store: FsStore; rec: Recorder; directory: string }> {
  const directory = await freshDirectory();
  const rec = recorder(directory);
  return { store: new FsStore({ directory }, rec.io), rec, directory };
}

const create = (store: FsStore, key: string, signal = open) => store.put(key, bytesOf("v"), { mode: "create", signal });

/** Whether the steps are in the trace in this order, other steps between them or not. */
function inOrder(trace: readonly string[], steps: readonly RegExp[]): boolean {
  let at = 0;
  for (const line of trace) if (steps[at]?.test(line) === true) at++;
  return at === steps.length;
}

describe("order of operations", () => {
  // Red when `syncFolder` in `publish` or `datasync` in `stage` is taken out, or moved after the link.
  it("content is synced before the name, the name's folder after it, and both before `created`", async () => {
    const { store, rec } = await fresh();
    expect((await create(store, "a/b/k")).outcome).toBe("created");
    const steps = [/^write .staging/, /^fdatasync .staging/, /^link a\/b\/k@obj$/, /^fsync a\/b$/, /^unlink .staging/];
    expect(inOrder(rec.trace, steps), rec.trace.join("\n")).toBe(true);
  });

  // Red when `#syncChain` stops one folder early, or when the folders above the store are left to others.
  it("every folder that the first put made is synced into its parent", async () => {
    const above = await freshDirectory();
    const directory = join(above, "x", "y");
    const rec = recorder(directory);
    await create(new FsStore({ directory }, rec.io), "a/b/k");
    const synced = rec.trace.filter((line) => line.startsWith("fsync "));
    expect(synced).toEqual(
      expect.arrayContaining(["../../..", "../..", "..", ".", "a", "a/b"].map((at) => `fsync ${at}`)),
    );
  });

  it("the entry of a store that is already there is synced once: its maker may have died before that", async () => {
    const { store, rec, directory } = await fresh();
    await mkdir(directory);
    await create(store, "k");
    expect(rec.trace).toContain("fsync ..");
    rec.trace.length = 0;
    await create(store, "l");
    expect(rec.trace).not.toContain("fsync ..");
  });

  it("a second put into a known folder syncs only that folder", async () => {
    const { store, rec } = await fresh();
    await create(store, "a/b/k");
    rec.trace.length = 0;
    await create(store, "a/b/l");
    expect(rec.trace.filter((line) => line.startsWith("fsync "))).toEqual(["fsync a/b"]);
  });

  it("`exists` is answered after a sync too: whoever took the name may have died before theirs", async () => {
    const { store, rec } = await fresh();
    await create(store, "a/k");
    rec.trace.length = 0;
    expect((await create(store, "a/k")).outcome).toBe("exists");
    expect(rec.trace).toContain("fsync a");
  });
});

describe("deletes", () => {
  // Red when `remove` returns before the sync where nothing is: the delete of a process that was killed could then come undone.
  it("sync the folder, also when nothing was there", async () => {
    const { store, rec } = await fresh();
    await create(store, "a/k");
    for (const key of ["a/k", "a/k", "a/never"]) {
      rec.trace.length = 0;
      await store.delete(key, { signal: open });
      expect(rec.trace, key).toContain("fsync a");
    }
    await store.delete("no/such/folder", { signal: open });
  });
});

describe("half-written files of killed writers", () => {
  const hourMs = 3_600_000;
  const put = async (directory: string) => {
    expect(
      (await create(new FsStore({ directory, stagingMaxAgeMs: hourMs }, recorder(directory).io), "later")).outcome,
    ).toBe("created");
  };

  it("are removed by a later store's first put when they are old, and nothing else is", async () => {
    const { store, directory } = await fresh();
    await create(store, "k");
    const staging = join(directory, ".staging");
    const old = new Date(Date.now() - 2 * hourMs);
    for (const name of ["0123456789abcdefghijklmn", "notes.txt"]) {
      await writeFile(join(staging, name), "half");
      await utimes(join(staging, name), old, old);
    }
    await writeFile(join(staging, "nmlkjihgfedcba9876543210"), "half");
    await put(directory);
    expect((await stagedFiles(directory)).sort()).toEqual(["nmlkjihgfedcba9876543210", "notes.txt"]);
  });

  it("a writer that was stalled so long that its file is gone is `failed`, and has written nothing", async () => {
    const { store, rec, directory } = await fresh();
    const hold = rec.holdNext("link", /k@obj$/);
    const slow = create(store, "k");
    await hold.reached;
    const [name = ""] = await stagedFiles(directory);
    await utimes(join(directory, ".staging", name), new Date(0), new Date(0));
    await put(directory);
    hold.release();
    expect(await slow).toMatchObject({ outcome: "failed", error: { code: "UNAVAILABLE" } });
    expect(await store.head("k", { signal: open })).toBeNull();
  });

  it("an age under a minute is refused", () => {
    for (const stagingMaxAgeMs of [0, 59_999, 1e5 + 0.5, NaN]) {
      const make = () => new FsStore({ directory: "/x", stagingMaxAgeMs }, recorder("/x").io);
      expect(make).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }) as Error);
    }
  });
});

describe("failures", () => {
  // Red, and never ending, when a write of nothing is tried again for ever.
  it("a file system that takes no bytes without an error is `failed`", async () => {
    const { store, rec, directory } = await fresh();
    rec.answerNext("write", /staging/, { bytesWritten: 0 });
    expect(await create(store, "k")).toMatchObject({ outcome: "failed", error: { code: "UNAVAILABLE" } });
    expect(await stagedFiles(directory)).toEqual([]);
  });

  it("a failed fdatasync is `failed`, and leaves no name and no staged file", async () => {
    const { store, rec, directory } = await fresh();
    rec.failNext("fdatasync", /staging/, "EIO");
    expect(await create(store, "k")).toMatchObject({ outcome: "failed", error: { code: "UNAVAILABLE" } });
    expect(await store.head("k", { signal: open })).toBeNull();
    expect(await stagedFiles(directory)).toEqual([]);
  });

  // Red when reads do not wait for `#changing`: head would then show an object that a power cut can still undo.
  it("a failed sync of the folder is `unknown`; nobody is told that the object is there until a sync succeeds", async () => {
    const { store, rec } = await fresh();
    await create(store, "a/first");
    rec.failNext("fsync", /\/a$/, "EIO");
    const result = await putVerified(store, "a/k", bytesOf("v"), { writeId: "w", signal: open });
    expect(result).toMatchObject({ outcome: "unknown", error: { code: "UNAVAILABLE" } });
    await expect(store.head("a/k", { signal: open })).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await expect(store.get("a/k", { signal: open })).rejects.toMatchObject({ code: "UNAVAILABLE" });
    const again = await putVerified(store, "a/k", bytesOf("v"), { writeId: "w", signal: open });
    expect(again.outcome).toBe("created");
    expect((await store.head("a/k", { signal: open }))?.size).toBe(1);
  });

  it.each([
    ["EACCES", "ACCESS_DENIED", /give user \d+ the right to read and write/],
    ["EROFS", "ACCESS_DENIED", /mounted read-only/],
    ["ENOSPC", "UNAVAILABLE", /no space is left/],
    ["EMFILE", "UNAVAILABLE", /could not do it now/],
  ])("a directory that answers %s is `failed` with %s and says what to do", async (errno, code, advice) => {
    const { store, rec, directory } = await fresh();
    rec.failNext("mkdir", /store$/, errno);
    const result = await create(store, "k");
    expect(result).toMatchObject({ outcome: "failed", error: { code } });
    if (result.outcome !== "failed") return;
    expect(result.error.message).toContain(directory);
    expect(result.error.message).toMatch(advice);
    expect((await create(store, "k")).outcome).toBe("created");
  });

  it("a file system without hard links is UNSUPPORTED", async () => {
    const { store, rec } = await fresh();
    rec.failNext("link", /k@obj$/, "EPERM");
    expect(await create(store, "k")).toMatchObject({ outcome: "failed", error: { code: "UNSUPPORTED" } });
  });

  // Red when every failed link counts as a refusal.
  it("a link whose answer is lost is `unknown`; the next attempt knows its own object", async () => {
    const { store, rec } = await fresh();
    rec.loseNext("link", /k@obj$/, "EIO");
    const first = await putVerified(store, "k", bytesOf("v"), { writeId: "w", signal: open });
    expect(first).toMatchObject({ outcome: "unknown", error: { code: "UNAVAILABLE" } });
    const again = await putVerified(store, "k", bytesOf("v"), { writeId: "w", signal: open });
    expect(again.outcome).toBe("created");
  });

  // A network file system repeats a request whose answer it lost, and the repeated link finds the name taken.
  it("a link that finds its own name there is `created`", async () => {
    const { store, rec } = await fresh();
    rec.loseNext("link", /k@obj$/, "EEXIST");
    expect((await create(store, "k")).outcome).toBe("created");
  });
});

describe("aborted puts", () => {
  it("before the name is asked for: `failed` at once, and nothing appears later", async () => {
    const { store, rec, directory } = await fresh();
    const abort = new AbortController();
    const hold = rec.holdNext("fdatasync", /staging/);
    const put = create(store, "k", abort.signal);
    await hold.reached;
    abort.abort();
    expect(await put).toMatchObject({ outcome: "failed", error: { code: "CANCELED" } });
    hold.release();
    expect((await create(store, "later")).outcome).toBe("created");
    expect(await store.head("k", { signal: open })).toBeNull();
    expect(await stagedFiles(directory)).toEqual([]);
  });

  // Red without the look at the signal in the turn in which the name is asked for.
  it("while the name waits to be asked for: `failed`, and it is never asked for", async () => {
    const { store, rec, directory } = await fresh();
    const abort = new AbortController();
    const hold = rec.holdNext("link", /k@obj$/);
    const put = create(store, "k", abort.signal);
    await hold.reached;
    abort.abort();
    expect(await put).toMatchObject({ outcome: "failed", error: { code: "CANCELED" } });
    hold.release();
    await until(() => rec.trace.some((line) => line.startsWith("unlink .staging")));
    expect(await store.head("k", { signal: open })).toBeNull();
    expect(await stagedFiles(directory)).toEqual([]);
  });

  it("after the name is asked for: `unknown` at once; a look waits for the sync, and then finds it", async () => {
    const { store, rec } = await fresh();
    await create(store, "a/first");
    const abort = new AbortController();
    const hold = rec.holdNext("fsync", /\/a$/);
    const put = create(store, "a/k", abort.signal);
    await hold.reached;
    abort.abort();
    expect(await put).toMatchObject({ outcome: "unknown", error: { code: "CANCELED" } });
    let seen = false;
    const head = store.head("a/k", { signal: open }).finally(() => (seen = true));
    await until(() => rec.trace.includes("close a/k@obj"));
    expect(seen).toBe(false);
    hold.release();
    expect((await head)?.size).toBe(1);
  });

  it("a look that waits for a sync ends with its own signal", async () => {
    const { store, rec } = await fresh();
    await create(store, "a/first");
    const hold = rec.holdNext("fsync", /\/a$/);
    const put = create(store, "a/k");
    await hold.reached;
    const abort = new AbortController();
    const head = store.head("a/k", { signal: abort.signal });
    await until(() => rec.trace.includes("close a/k@obj"));
    abort.abort();
    await expect(head).rejects.toMatchObject({ code: "CANCELED" });
    hold.release();
    expect((await put).outcome).toBe("created");
  });
});
