// Goal: what the store did not put there, or what was damaged, is never taken for an object and never hides the others; nothing leaves
// the root. Method: files, links and pipes made by hand in the directory.
import { execFileSync } from "node:child_process";
import { appendFile, mkdir, readdir, readFile, rename, symlink, truncate, unlink, writeFile } from "node:fs/promises";
import { dirname, join, relative, resolve } from "node:path";
import { crc32 } from "node:zlib";
import { describe, expect, it } from "vitest";
import { fsStore } from "@holdfast/storage-fs";
import { FsStore } from "../../src/fs-store.js";
import { bytesOf, freshDirectory, open, recorder } from "./support.js";

const options = { mode: "create", signal: open } as const;

async function filled(): Promise<{ directory: string; store: ReturnType<typeof fsStore> }> {
  const directory = await freshDirectory();
  const store = fsStore({ directory });
  for (const key of ["a/1", "a/2", "b"]) await store.put(key, bytesOf(`object ${key}`), options);
  return { directory, store };
}

async function keys(store: ReturnType<typeof fsStore>, prefix = ""): Promise<string[]> {
  const found: string[] = [];
  for await (const { key } of store.list({ prefix, signal: open })) found.push(key);
  return found;
}

describe("damaged files", () => {
  it.each<[string, (path: string) => Promise<unknown>]>([
    ["empty", (path) => truncate(path, 0)],
    ["cut by one byte", async (path) => truncate(path, (await readFile(path)).length - 1)],
    ["grown", (path) => appendFile(path, "x")],
    ["with a flipped byte in its trailer", (path) => flip(path, -60)],
    ["with a wrong size in its trailer", (path) => flip(path, -32)],
    ["renamed to another key", (path) => rename(join(dirname(path), "1@obj"), path)],
    // Whole by its sizes and its checksum, so that only what the JSON says is left to look at.
    ["no JSON behind a right checksum", (path) => writeFile(path, endedWith("{"))],
    ["null behind a right checksum", (path) => writeFile(path, endedWith("null"))],
    ["without an etag behind a right checksum", (path) => writeFile(path, endedWith('{"key":"a/2","metadata":{}}'))],
    ["without metadata behind a right checksum", (path) => writeFile(path, endedWith('{"key":"a/2","etag":"e"}'))],
    [
      "with a number as metadata behind a right checksum",
      (path) => writeFile(path, endedWith('{"key":"a/2","etag":"e","metadata":{"n":1}}')),
    ],
  ])("a file that is %s is CORRUPT, left out of listings, and does not count as free", async (_, damage) => {
    const { directory, store } = await filled();
    await damage(join(directory, "a", "2@obj"));
    await expect(store.get("a/2", { signal: open })).rejects.toMatchObject({ code: "CORRUPT" });
    await expect(store.head("a/2", { signal: open })).rejects.toMatchObject({ code: "CORRUPT" });
    expect(await store.put("a/2", bytesOf("x"), options)).toMatchObject({
      outcome: "failed",
      error: { code: "CORRUPT" },
    });
    expect(await keys(store)).not.toContain("a/2");
    expect(await keys(store)).toContain("b");
    expect(await store.put("a/2", bytesOf("new"), { mode: "overwrite", signal: open })).toMatchObject({
      outcome: "created",
    });
    expect((await store.head("a/2", { signal: open }))?.size).toBe(3);
  });

  /** An object of no bytes whose trailer has this text as its JSON. */
  function endedWith(json: string): Uint8Array {
    const end = Buffer.alloc(32);
    end.writeUInt32LE(Buffer.byteLength(json), 8);
    end.writeUInt32LE(crc32(end.subarray(0, 12), crc32(json)), 12);
    end.write("holdfast-object1", 16, "latin1");
    return Buffer.concat([Buffer.from(json), end]);
  }

  async function flip(path: string, at: number): Promise<void> {
    const bytes = await readFile(path);
    bytes[bytes.length + at]! ^= 0x40;
    await writeFile(path, bytes);
  }
});

describe("foreign names", () => {
  it("are left out of listings without an error", async () => {
    const { directory, store } = await filled();
    for (const name of [
      "README",
      "a@obj",
      "X@obj",
      "%zz@obj",
      "%61@obj",
      "%ff@obj",
      "^1@obj",
      "c@more",
      ".hidden",
      "über",
    ]) {
      await writeFile(join(directory, name), "not ours");
    }
    for (const name of ["d@obj", "%2fe", "F", "g@more"]) await mkdir(join(directory, name, "sub"), { recursive: true });
    await writeFile(join(directory, "F", "1@obj"), "not ours");
    expect(await keys(store)).toEqual(["a/1", "a/2", "b"]);
  });

  // Red without O_NONBLOCK: the open then waits for a writer and holds one of libuv's threads for ever.
  it("a pipe in an object's place is CORRUPT and holds up nobody", async () => {
    const { directory, store } = await filled();
    execFileSync("mkfifo", [join(directory, "pipe@obj")]);
    await expect(store.get("pipe", { signal: open })).rejects.toMatchObject({ code: "CORRUPT" });
    expect(await keys(store)).toEqual(["a/1", "a/2", "b"]);
  });
});

describe("symbolic links", () => {
  it("in an object's place are not read, and overwriting or deleting touches the link alone", async () => {
    const { directory, store } = await filled();
    // A file that would do as the object, were it there itself.
    const outside = join(directory, "..", "outside");
    await store.put("link", bytesOf("object outside"), options);
    await rename(join(directory, "link@obj"), outside);
    await symlink(outside, join(directory, "link@obj"));
    await expect(store.get("link", { signal: open })).rejects.toMatchObject({ code: "CORRUPT" });
    expect(await keys(store)).not.toContain("link");
    expect(await store.put("link", bytesOf("mine"), { mode: "overwrite", signal: open })).toMatchObject({
      outcome: "created",
    });
    await store.delete("link", { signal: open });
    expect((await readFile(outside)).includes("object outside")).toBe(true);
  });

  it("on the way to a key are refused by every method, and nothing is written behind them", async () => {
    const { directory, store } = await filled();
    const outside = join(directory, "..", "outside");
    await mkdir(outside);
    await symlink(outside, join(directory, "esc"));
    for (const key of ["esc/k", "esc/deep/k"]) {
      expect(await store.put(key, bytesOf("x"), options)).toMatchObject({
        outcome: "failed",
        error: { code: "CORRUPT" },
      });
    }
    await expect(store.get("esc/k", { signal: open })).rejects.toMatchObject({ code: "CORRUPT" });
    await expect(store.head("esc/k", { signal: open })).rejects.toMatchObject({ code: "CORRUPT" });
    await expect(store.delete("esc/k", { signal: open })).rejects.toMatchObject({ code: "CORRUPT" });
    await expect(keys(store, "esc/")).rejects.toMatchObject({ code: "CORRUPT" });
    expect(execFileSync("find", [outside]).toString().trim()).toBe(outside);
    expect(await keys(store)).toEqual(["a/1", "a/2", "b"]);
  });

  // Red when only the path is looked at before the use (Linux, where an open folder has a name of its own).
  it.runIf(process.platform === "linux")(
    "made after the look lead neither a write, a delete nor a read away",
    async () => {
      const directory = await freshDirectory();
      const rec = recorder(directory);
      const store = new FsStore({ directory }, rec.io);
      await store.put("a/k", bytesOf("inside"), options);
      const outside = join(directory, "..", "outside");
      await mkdir(outside);
      await writeFile(join(outside, "k@obj"), "not ours");
      const swapped = async (op: string, path: RegExp, work: () => Promise<unknown>): Promise<unknown> => {
        const hold = rec.holdNext(op, path);
        const ended = work().catch((error: unknown) => error);
        await hold.reached;
        await rename(join(directory, "a"), join(directory, "moved"));
        await symlink(outside, join(directory, "a"));
        hold.release();
        const result = await ended;
        await unlink(join(directory, "a"));
        await rename(join(directory, "moved"), join(directory, "a"));
        return result;
      };
      const overwrite = { mode: "overwrite", signal: open } as const;
      // Between the look at the folder and the rename, and before the look.
      expect(await swapped("rename", /k@obj$/, () => store.put("a/k", bytesOf("new"), overwrite))).toMatchObject({
        outcome: "created",
      });
      expect(await swapped("open", /\/a$/, () => store.put("a/k", bytesOf("newer"), overwrite))).toMatchObject({
        outcome: "failed",
        error: { code: "CORRUPT" },
      });
      expect(await swapped("open", /k@obj$/, () => store.get("a/k", { signal: open }))).toMatchObject({
        code: "CORRUPT",
      });
      expect((await store.head("a/k", { signal: open }))?.size).toBe(3);
      await swapped("unlink", /k@obj$/, () => store.delete("a/k", { signal: open }));
      expect(await store.head("a/k", { signal: open })).toBeNull();
      expect(await readFile(join(outside, "k@obj"), "utf8")).toBe("not ours");
      expect(await readdir(outside)).toEqual(["k@obj"]);
    },
  );

  it("above the root are the operator's own business", async () => {
    const { directory } = await filled();
    const link = join(directory, "..", "by-link");
    await symlink(directory, link);
    const store = fsStore({ directory: link });
    expect(await keys(store)).toEqual(["a/1", "a/2", "b"]);
    expect(await store.put("c", bytesOf("x"), options)).toMatchObject({ outcome: "created" });
  });
});

describe("the directory", () => {
  it("that does not exist is an empty store, and reading does not make it", async () => {
    const directory = await freshDirectory();
    const store = fsStore({ directory });
    expect(await keys(store)).toEqual([]);
    expect(await store.head("k", { signal: open })).toBeNull();
    await store.delete("k", { signal: open });
    await expect(readFile(directory)).rejects.toMatchObject({ code: "ENOENT" });
  });

  it("that is removed under a running store is made again by the next put", async () => {
    const { directory, store } = await filled();
    await rename(directory, `${directory}-moved`);
    expect(await keys(store)).toEqual([]);
    expect(await store.put("a/1", bytesOf("again"), options)).toMatchObject({ outcome: "created" });
    expect(await keys(store)).toEqual(["a/1"]);
  });

  it("that is a file makes puts `failed` with a message that names it", async () => {
    const directory = await freshDirectory();
    await writeFile(directory, "");
    const result = await fsStore({ directory }).put("k", bytesOf("x"), options);
    expect(result).toMatchObject({ outcome: "failed", error: { code: "CORRUPT" } });
    expect(String("error" in result && result.error)).toContain(directory);
  });

  // Red, and never ending, with mkdir's own `recursive`: Node makes the parent, which is there, again and again.
  it.runIf(process.platform === "linux")("below a folder that takes none makes puts ACCESS_DENIED", async () => {
    for (const directory of ["/proc/nope", "/proc/nope/x/y"]) {
      const store = fsStore({ directory });
      const result = await store.put("a/k", bytesOf("x"), options);
      expect(result).toMatchObject({ outcome: "failed", error: { code: "ACCESS_DENIED" } });
      expect(String("error" in result && result.error)).toMatch(
        /mkdir \/proc\/nope failed \(ENOENT\): .*another directory/,
      );
      expect(await keys(store)).toEqual([]);
    }
  });

  it("gives the default store id, the same from wherever it is named", () => {
    const directory = resolve("some", "where");
    expect(fsStore({ directory }).storeId).toBe(`fs:${directory}`);
    expect(fsStore({ directory: relative(process.cwd(), directory) }).storeId).toBe(`fs:${directory}`);
    expect(fsStore({ directory: `${directory}/` }).storeId).toBe(`fs:${directory}`);
    expect(fsStore({ directory, storeId: "mine" }).storeId).toBe("mine");
    expect(() => fsStore({ directory: "" })).toThrow(expect.objectContaining({ code: "CONFIG_INVALID" }) as Error);
  });
});
