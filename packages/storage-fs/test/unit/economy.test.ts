// Goal: the store does not take more of the machine than it says. Method: the recorder counts operations.
import { describe, expect, it } from "vitest";
import { FsStore } from "../../src/fs-store.js";
import { sortedMerge } from "../../src/sorted-merge.js";
import { bytesOf, freshDirectory, open, recorder } from "./support.js";

describe("file operations", () => {
  // Red with `createLimiter(3)`.
  it("are at most two in flight in the process, whatever is asked for at once", async () => {
    const directory = await freshDirectory();
    const rec = recorder(directory);
    const stores = [new FsStore({ directory }, rec.io), new FsStore({ directory }, rec.io)];
    const work = Array.from({ length: 64 }, async (_, i) => {
      const store = stores[i % 2]!;
      await store.put(`k/${i}`, bytesOf("v"), { mode: "create", signal: open });
      await store.get(`k/${i}`, { signal: open });
      for await (const info of store.list({ prefix: "k/", limit: 2, signal: open })) expect(info.size).toBe(1);
    });
    await Promise.all(work);
    expect(rec.peak()).toBe(2);
  });

  it("of a listing open the files that it yields, and one ahead at most", async () => {
    const directory = await freshDirectory();
    const rec = recorder(directory);
    const store = new FsStore({ directory }, rec.io);
    for (const writer of ["a", "b"]) {
      for (let i = 0; i < 20; i++) {
        await store.put(`v1/c/w=${writer}/${i + 10}`, bytesOf("v"), { mode: "create", signal: open });
      }
    }
    const opened = async (o: { prefix: string; startAfter?: string; limit?: number }, leaveAfter = Infinity) => {
      rec.trace.length = 0;
      let count = 0;
      for await (const { key } of store.list({ ...o, signal: open }))
        if (++count >= leaveAfter) expect(key).toContain("v1/");
      return { count, files: rec.trace.filter((line) => line.startsWith("open ")).length };
    };
    expect(await opened({ prefix: "v1/c/w=a/", startAfter: "v1/c/w=a/26", limit: 2 })).toEqual({ count: 2, files: 2 });
    expect(await opened({ prefix: "v1/c/w=a/", startAfter: "v1/c/w=a/28" })).toEqual({ count: 1, files: 1 });
    expect(await opened({ prefix: "v1/c/w=a/", startAfter: "v1/c/w=b/" })).toEqual({ count: 0, files: 0 });
    await opened({ prefix: "v1/c/w=a/", startAfter: "v1/c/w=a/28" });
    expect(
      rec.trace.filter((line) => line.startsWith("opendir ")),
      "no other writer's folder is read",
    ).toEqual(["opendir v1/c/w=a"]);
    rec.trace.length = 0;
    for await (const { key } of store.list({ prefix: "v1/", signal: open })) {
      expect(key).toBe("v1/c/w=a/10");
      break;
    }
    expect(rec.trace.filter((line) => line.startsWith("open ")).length).toBeLessThanOrEqual(2);
  });
});

describe("sortedMerge", () => {
  it("sorts what comes in more than one run, and leaves out what is not wanted", async () => {
    const count = 5000;
    async function* source() {
      for (let i = 0; i < count; i++) yield (i * 2741) % count;
    }
    const seen: number[] = [];
    for await (const n of sortedMerge(
      source(),
      (n) => n % 10 !== 0,
      (a, b) => a - b,
    ))
      seen.push(n);
    expect(seen).toEqual(Array.from({ length: count }, (_, i) => i).filter((n) => n % 10 !== 0));
  });
});
