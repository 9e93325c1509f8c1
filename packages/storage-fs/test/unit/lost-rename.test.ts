// Goal: a rename that a network file system has done, and then denies, is told as what it was. Method: the store over an Io that does the
// rename and loses its answer, or refuses it.
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { FsStore } from "../../src/fs-store.js";
import { bytesOf, freshDirectory, open, recorder, stagedFiles } from "./support.js";

async function fresh() {
  const directory = await freshDirectory();
  const rec = recorder(directory);
  const store = new FsStore({ directory }, rec.io);
  await store.put("a/k", bytesOf("v"), { mode: "create", signal: open });
  rec.trace.length = 0;
  return { store, rec, directory };
}

describe("an overwrite whose rename is answered that the staged file is gone", () => {
  const overwrite = (store: FsStore) => store.put("a/k", bytesOf("ours"), { mode: "overwrite", signal: open });
  const textOf = async (store: FsStore) => new TextDecoder().decode((await store.get("a/k", { signal: open })).bytes);

  // A network file system repeats a rename whose answer it lost, and the repeated one finds no file. Red when ENOENT is a refusal of every
  // rename (without `isGone` in `publish`): it was `failed`, with the object in place.
  it("is `created` when its own object is there, synced like any other", async () => {
    const { store, rec } = await fresh();
    rec.loseNext("rename", /k@obj$/, "ENOENT");
    const result = await overwrite(store);
    expect(result).toMatchObject({ outcome: "created", etag: (await store.head("a/k", { signal: open }))?.etag });
    expect(await textOf(store)).toBe("ours");
    expect(rec.trace).toContain("fsync a");
  });

  it("is `unknown` when the sync behind it fails, and so is the key", async () => {
    const { store, rec } = await fresh();
    rec.loseNext("rename", /k@obj$/, "ENOENT");
    rec.failNext("fsync", /\/a$/, "EIO");
    expect(await overwrite(store)).toMatchObject({ outcome: "unknown", error: { code: "UNAVAILABLE" } });
    await expect(store.head("a/k", { signal: open })).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });

  // Red when an open end is `failed` like a taken name: what was replaced since was written.
  it.each([
    ["another's", (store: FsStore) => store.put("a/k", bytesOf("theirs"), { mode: "overwrite", signal: open })],
    ["nothing", (store: FsStore) => store.delete("a/k", { signal: open })],
  ])("is `unknown` when %s is there by then, and the key stays readable", async (_what, change) => {
    const { store, rec, directory } = await fresh();
    rec.loseNext("rename", /k@obj$/, "ENOENT");
    const hold = rec.holdNext("fsync", /\/a$/);
    const put = overwrite(store);
    await Promise.race([hold.reached, put]);
    await change(new FsStore({ directory }, recorder(directory).io)); // another process
    hold.release();
    expect(await put).toMatchObject({ outcome: "unknown", error: { code: "UNAVAILABLE" } });
    await store.head("a/k", { signal: open });
  });

  // Red without `isGone`, when the error alone decides: here the folder is what is gone.
  it("is `failed` when the staged file is still there", async () => {
    const { store, rec, directory } = await fresh();
    const hold = rec.holdNext("rename", /k@obj$/);
    const put = overwrite(store);
    await hold.reached;
    await rm(join(directory, "a"), { recursive: true });
    hold.release();
    expect(await put).toMatchObject({ outcome: "failed", error: { code: "UNAVAILABLE" } });
    expect(await store.head("a/k", { signal: open })).toBeNull();
    expect(await stagedFiles(directory)).toEqual([]);
  });
});
