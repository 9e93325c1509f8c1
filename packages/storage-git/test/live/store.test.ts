// Goal: what the contract does not ask, and people who use git beside the store do: files that they commit, links, submodules, merges, rewritten branches. And what becomes of
// a clone. Method: a bare repository, changed by git itself.
import { execFileSync } from "node:child_process";
import { mkdir, readdir, rm, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { systemClock } from "@holdfast/deadline-http";
import { until } from "@holdfast-private/tests-machine";
import { gitStore, type GitStore, type GitStoreOptions } from "@holdfast/storage-git";
import { bareRepository, countOf, freshFolder, gitIn, headOf, rivalCommits, textAt } from "../support/repositories.js";
import { wrappedGit } from "../support/wrapped-git.js";

const { signal } = new AbortController();
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

async function opened(more: Partial<GitStoreOptions> = {}) {
  const folder = await freshFolder();
  const remote = await bareRepository(folder);
  const open = (o: Partial<GitStoreOptions> = {}): GitStore => {
    const store = gitStore({
      remote,
      directory: join(folder, "clones"),
      retryBudgetMs: 600_000,
      requestTimeoutMs: 600_000,
      ...more,
      ...o,
    });
    onTestFinished(() => store[Symbol.asyncDispose]());
    return store;
  };
  return { folder, remote, open, store: open() };
}

/** A clock whose wall time stands still. */
const still = {
  wallMs: () => 1_700_000_000_000,
  sleep: systemClock.sleep.bind(systemClock),
  setTimer: systemClock.setTimer.bind(systemClock),
};
const etag = async (store: GitStore, key: string): Promise<string | undefined> =>
  (await store.head(key, { signal }))?.etag;

describe("etags", () => {
  it("differ after every write of an object, also of the same bytes, and are that of no other write", async () => {
    const { store, open, remote } = await opened();
    const etags: (string | undefined)[] = [];
    for (const text of ["1", "1", "2", "1"]) {
      const put = await store.put("a", bytes(text), { mode: "overwrite", signal });
      etags.push((put as { etag?: string }).etag);
    }
    await store.write("a", bytes("2"), { signal });
    etags.push(await etag(store, "a"));
    await rivalCommits(remote, "a", "1");
    etags.push(await etag(store, "a"));
    // A put that changes no file is a write for those who were not there, too.
    await store.put("b", bytes("1"), { mode: "create", signal });
    const same = await store.put("b", bytes("1"), { mode: "overwrite", signal });
    expect(await etag(open(), "b")).toBe((same as { etag?: string }).etag);
    expect(new Set(etags).size).toBe(6);
    expect(etags).not.toContain(undefined);
  });

  it("of one object stay while others are written, and are the same in every clone, whenever it looks", async () => {
    const { store, open, remote } = await opened();
    await store.put("a", bytes("1"), { mode: "create", metadata: { by: "test" }, signal });
    const first = await etag(store, "a");
    await store.put("b", bytes("1"), { mode: "create", signal });
    await rivalCommits(remote, "c", "1");
    expect(await etag(store, "a")).toBe(first);
    const fresh = open();
    for (const key of ["a", "b", "c"])
      expect(await fresh.head(key, { signal })).toEqual(await store.head(key, { signal }));
    expect((await fresh.head("a", { signal }))?.metadata).toEqual({ by: "test" });
  });

  it("of a merge and of a branch that was rewritten are the same in a clone that was there and in one that was not", async () => {
    const { store, open, remote } = await opened();
    await store.batch(
      "first",
      async (b) => {
        for (const path of ["a", "b", "c"]) await b.write(path, bytes("0"));
      },
      { signal },
    );
    const base = await headOf(remote);
    await rivalCommits(remote, "a", "main");
    await store.head("a", { signal });
    // A branch that has merged main, to which main is then moved forward: main's own commits are its second parents.
    const side = await gitIn(remote, "commit-tree", "-p", base!, "-m", "side", `${base!}^{tree}`);
    const merge = await gitIn(remote, "commit-tree", "-p", side, "-p", "main", "-m", "merge", "main^{tree}");
    await gitIn(remote, "update-ref", "refs/heads/main", merge);
    const compare = async (): Promise<void> => {
      const fresh = open();
      for (const key of ["a", "b", "c"])
        expect(await fresh.head(key, { signal })).toEqual(await store.head(key, { signal }));
    };
    await compare();
    expect(await etag(store, "a")).toBe(merge);
    // Another one, which has merged main and kept nothing of it: what is there is older than what is known.
    await gitIn(remote, "update-ref", "refs/heads/main", base!);
    await rivalCommits(remote, "a", "main again");
    await store.head("a", { signal });
    const dropped = await gitIn(remote, "commit-tree", "-p", side, "-p", "main", "-m", "drop", `${base!}^{tree}`);
    await gitIn(remote, "update-ref", "refs/heads/main", dropped);
    await compare();
    expect(await etag(store, "a")).toBe(base);
    await gitIn(remote, "update-ref", "refs/heads/main", base!);
    await compare();
    expect(await etag(store, "a")).toBe(base);
  });

  it("two writers that put the same in the same second make two commits, and one of them is told that it exists", async () => {
    const clock = { ...still, now: () => systemClock.now() };
    const { open } = await opened({ clock });
    const puts = await Promise.all(
      [open(), open()].map((store) => store.put("a", bytes("same"), { mode: "create", signal })),
    );
    expect(puts.map(({ outcome }) => outcome).sort()).toEqual(["created", "exists"]);
  });
});

describe("a branch that people use too", () => {
  it("lists files in byte order, page by page, and leaves out links, submodules and names that are no text", async () => {
    const { store, remote } = await opened();
    const keys = ["a", "a b", "a-b/x", "a.b", "z/b", "é", "\u{1f600}", "\uff5e", "-"];
    await store.batch(
      "first",
      async (b) => {
        for (const path of keys) await b.write(path, bytes(path));
      },
      { signal },
    );
    await addToTree(remote, ["120000 blob {blob}\tlink", "160000 commit {commit}\tsub", "100644 blob {blob}\t\xff"]);
    const list = async (o: object): Promise<string[]> => {
      const found: string[] = [];
      for await (const { key } of store.list({ prefix: "", signal, ...o })) found.push(key);
      return found;
    };
    const sorted = [...keys].sort((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)));
    expect(await list({})).toEqual(sorted);
    for (const [i, startAfter] of sorted.entries())
      expect(await list({ startAfter, limit: 2 })).toEqual(sorted.slice(i + 1, i + 3));
    expect(await list({ prefix: "a" })).toEqual(sorted.filter((key) => key.startsWith("a")));
    expect(await list({ prefix: "", limit: 100 })).toEqual(sorted);
  });

  it("a symbolic link and a submodule are refused to reads and writes, and what is beside them survives every write", async () => {
    const { store, remote } = await opened();
    await store.write("a", bytes("1"), { signal });
    await addToTree(remote, ["120000 blob {blob}\tlink", "160000 commit {commit}\tsub"]);
    for (const [path, words] of [
      ["link", "is a symbolic link on the branch"],
      ["sub", "is a submodule on the branch"],
    ] as const) {
      const refused = { code: "INVALID_KEY", message: expect.stringContaining(words) as string };
      await expect(store.get(path, { signal })).rejects.toMatchObject(refused);
      await expect(store.delete(path, { signal })).rejects.toMatchObject(refused);
      expect(await store.put(path, bytes("x"), { mode: "overwrite", signal })).toMatchObject({
        outcome: "failed",
        error: refused,
      });
      await expect(store.write(path, bytes("x"), { signal })).rejects.toMatchObject(refused);
      const below = { code: "INVALID_KEY", message: expect.stringContaining("which is no folder") as string };
      await expect(store.write(`${path}/x`, bytes("x"), { signal })).rejects.toMatchObject(below);
    }
    await store.write("a", bytes("2"), { signal });
    expect(await gitIn(remote, "ls-tree", "--name-only", "main")).toBe("a\nlink\nsub");
    expect(await gitIn(remote, "fsck", "--strict")).toBe("");
  });

  it("a name that clashes with what another writer has added meanwhile is refused, and a file keeps its mode", async () => {
    const { store, remote } = await opened();
    await store.write("A/x", bytes("1"), { signal });
    await addToTree(remote, ["100755 blob {blob}\trun.sh"]);
    await store.write("run.sh", bytes("2"), { signal });
    expect(await gitIn(remote, "ls-tree", "main", "run.sh")).toMatch(/^100755 /);
    const race = store.batch(
      "mine",
      async (b) => {
        await b.write("policy", bytes("1"));
        await rivalCommits(remote, "Policy", "theirs");
      },
      { signal },
    );
    await expect(race).rejects.toMatchObject({
      code: "INVALID_KEY",
      message: expect.stringContaining('one name with "Policy"') as string,
    });
    await expect(store.write("a/y", bytes("1"), { signal })).rejects.toMatchObject({ code: "INVALID_KEY" });
    expect(await textAt(remote, "policy")).toBeNull();
  });

  it("inside a batch the methods of the contract are refused, and what is left running belongs to no batch", async () => {
    const { store, remote } = await opened();
    let left: (() => Promise<unknown>) | undefined;
    await store.batch(
      "mine",
      async (b) => {
        await expect(store.get("a", { signal })).rejects.toMatchObject({ code: "UNSUPPORTED" });
        expect(await store.put("a", bytes("1"), { mode: "create", signal })).toMatchObject({
          outcome: "failed",
          error: { code: "UNSUPPORTED" },
        });
        await store.write("a", bytes("joined"), { signal });
        expect(await store.read("a", { signal })).toMatchObject({ bytes: bytes("joined") });
        left = () => b.write("late", bytes("1"));
      },
      { signal },
    );
    expect(await countOf(remote)).toBe(1);
    await expect(left!()).rejects.toMatchObject({ code: "UNSUPPORTED" });
  });
});

describe("git", () => {
  it("gets no settings, hooks or variables of the machine or the caller", async () => {
    const { open, folder, remote } = await opened();
    const hooks = join(folder, "hooks");
    await mkdir(hooks);
    for (const name of ["pre-push", "reference-transaction", "post-checkout"]) {
      await writeFile(join(hooks, name), `#!/bin/sh\ntouch '${folder}/hook-ran'\nexit 1\n`, { mode: 0o755 });
    }
    const settings = `[core]\n\thooksPath = ${hooks}\n[url "/nowhere/"]\n\tinsteadOf = ${folder}/\n[user]\n\tname = someone\n[push]\n\tgpgSign = true\n`;
    await writeFile(join(folder, ".gitconfig"), settings);
    const foreign: Record<string, string> = {
      HOME: folder,
      XDG_CONFIG_HOME: folder,
      GIT_DIR: "/nowhere",
      GIT_INDEX_FILE: "/nowhere",
      GIT_OBJECT_DIRECTORY: "/nowhere",
      GIT_AUTHOR_NAME: "someone",
      GIT_CONFIG_GLOBAL: join(folder, ".gitconfig"),
      GIT_CONFIG_COUNT: "1",
      GIT_CONFIG_KEY_0: "core.hooksPath",
      GIT_CONFIG_VALUE_0: hooks,
      GIT_TRACE: join(folder, "trace"),
    };
    for (const [name, value] of Object.entries(foreign)) vi.stubEnv(name, value);
    onTestFinished(() => void vi.unstubAllEnvs());
    await open().write("a", bytes("1"), { signal });
    expect(await textAt(remote, "a")).toBe("1");
    expect(await gitIn(remote, "log", "-1", "--format=%an <%ae> %cn", "main")).toBe(
      "holdfast <holdfast@localhost> holdfast",
    );
    expect((await readdir(folder)).filter((name) => name === "trace" || name === "hook-ran")).toEqual([]);
  });

  it("that is not there, or that is no git, is CONFIG_INVALID with the name of the option", async () => {
    const { open } = await opened();
    await expect(open({ git: "no-such-git" }).read("a", { signal })).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining("name it in the option git") as string,
    });
  });
});

describe("a clone", () => {
  it("that is removed, damaged or locked is made or cleared again", async () => {
    const { store, folder } = await opened();
    await store.write("a", bytes("1"), { signal });
    const clone = join(folder, "clones", (await readdir(join(folder, "clones")))[0]!);
    await rm(join(clone, "objects"), { recursive: true });
    // Whatever a damaged clone makes of one call, the next one works.
    await store.write("a", bytes("2"), { signal }).catch(() => undefined);
    await store.write("a", bytes("3"), { signal });
    expect(Buffer.from((await store.read("a", { signal })).bytes!).toString()).toBe("3");
  });

  it("of a call that was cut short is used on without the lock files that its git left", async () => {
    const { open, folder } = await opened();
    const held = `mkdir -p "$GIT_DIR/refs/holdfast"; touch "$GIT_DIR/refs/holdfast/made.lock" "$GIT_DIR/config.lock"; touch '${folder}/waits'; exec sleep 1000`;
    const git = await wrappedGit(folder, [{ command: "fast-import", call: 1, before: held }]);
    const store = open({ git: git.program });
    const abort = new AbortController();
    const write = store.write("a", bytes("1"), { signal: abort.signal });
    await until("git waits", async () => (await readdir(folder)).includes("waits"));
    abort.abort();
    await expect(write).rejects.toMatchObject({ code: "CANCELED" });
    await store.write("a", bytes("2"), { signal });
    expect(Buffer.from((await store.read("a", { signal })).bytes!).toString()).toBe("2");
  });

  it("of a killed store is removed when it is old, and nothing else in the directory is", async () => {
    const { open, folder } = await opened();
    const directory = join(folder, "clones");
    const old = "0123456789abcdefghijklmn.git";
    for (const name of [old, "another.git"]) {
      await mkdir(join(directory, name), { recursive: true });
      await gitIn(join(directory, name), "init", "--quiet", "--bare");
    }
    await writeFile(join(directory, "notes"), "mine");
    for (const name of [`${old}/HEAD`, "another.git/HEAD", "notes"]) await utimes(join(directory, name), 1, 1);
    await open().read("a", { signal });
    const names = await readdir(directory);
    expect(names).toHaveLength(3);
    expect(names).toEqual(expect.arrayContaining(["another.git", "notes"]));
  });
});

/** Commits lines of a tree to the branch; `{blob}` and `{commit}` are ids of something that is there. */
async function addToTree(remote: string, lines: readonly string[]): Promise<void> {
  const head = await headOf(remote);
  const blob = (await gitIn(remote, "ls-tree", "-r", "main")).split(/\s/)[2]!;
  const old = execFileSync("git", ["--git-dir", remote, "ls-tree", "main", "-z"]).toString("latin1");
  const more = lines.map((line) => `${line.replace("{blob}", blob).replace("{commit}", head!)}\0`).join("");
  const tree = execFileSync("git", ["--git-dir", remote, "mktree", "-z"], { input: Buffer.from(old + more, "latin1") })
    .toString()
    .trim();
  const commit = await gitIn(remote, "commit-tree", "-p", head!, "-m", "by a person", tree);
  await gitIn(remote, "update-ref", "refs/heads/main", commit);
}
