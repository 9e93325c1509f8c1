// Goal: what only a server can do to a store: refuse, stall, ask for credentials and repeat them. Method: git's own HTTP backend behind a small server that breaks
// its answers; the process list is read from /proc.
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { within } from "@holdfast/deadline-http";
import { until } from "@holdfast-private/tests-machine";
import { gitStore, type GitStore, type GitStoreOptions } from "@holdfast/storage-git";
import { startGitHttp } from "../support/git-http.js";
import { processesWith } from "../support/processes.js";
import { bareRepository, freshFolder, headOf, textAt } from "../support/repositories.js";
import { wrappedGit } from "../support/wrapped-git.js";

const { signal } = new AbortController();
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

function open(o: GitStoreOptions): GitStore {
  const store = gitStore({ retryBudgetMs: 600_000, requestTimeoutMs: 600_000, ...o });
  onTestFinished(() => store[Symbol.asyncDispose]());
  return store;
}

async function served(auth?: { username: string; password: string }) {
  const folder = await freshFolder();
  const repository = await bareRepository(folder);
  const http = await startGitHttp(folder, auth);
  onTestFinished(() => http[Symbol.asyncDispose]());
  const options: GitStoreOptions = {
    remote: http.url("remote.git"),
    allowHttp: true,
    directory: join(folder, "clones"),
  };
  return { folder, repository, http, options };
}

describe("a store on an HTTP remote", () => {
  it("GB-14 a status that does not pass by is tried once, and one that does is retried", async () => {
    const { http, options, repository } = await served();
    const store = open(options);
    await store.write("a", bytes("1"), { signal });
    http.fail("POST", "git-receive-pack", 403);
    const before = http.log.length;
    await expect(store.write("a", bytes("2"), { signal })).rejects.toMatchObject({ code: "ACCESS_DENIED" });
    expect(http.log.slice(before).filter((line) => line === "POST git-receive-pack")).toHaveLength(1);
    http.fail("POST", "git-receive-pack", 503, 2);
    expect(await store.write("a", bytes("3"), { signal })).toMatchObject({ changed: true });
    expect(await textAt(repository, "a")).toBe("3");
  });

  it("GB-14 B21 a put whose answer was lost is created, with one commit, and no other writer's object is called ours", async () => {
    const { http, options } = await served();
    const store = open(options);
    http.fail("POST", "git-receive-pack", "lost");
    const put = await store.put("a", bytes("1"), { mode: "create", signal });
    expect(put.outcome).toBe("created");
    const again = await open({ ...options, directory: `${options.directory}-2` }).put("a", bytes("1"), {
      mode: "create",
      signal,
    });
    expect(again).toMatchObject({ outcome: "exists", info: { etag: (put as { etag: string }).etag } });
  });

  it("GB-14 a remote that fails for all of the budget is a typed error, and the next write lands", async () => {
    const { http, options, repository } = await served();
    const store = open({ ...options, retryBudgetMs: 1 });
    await store.write("a", bytes("1"), { signal });
    http.fail("POST", "git-receive-pack", 503, 1_000);
    const batch = store.batch("mine", (b) => b.write("b", bytes("2")), { signal });
    await expect(batch).rejects.toMatchObject({
      name: "RemoteUnavailableError",
      code: "UNAVAILABLE",
      outcome: "unknown",
      retryAfterMs: 5_000,
    });
    const put = await store.put("c", bytes("3"), { mode: "create", signal });
    expect(put.outcome).toBe("unknown");
    http.heal();
    expect(await store.write("d", bytes("4"), { signal })).toMatchObject({ changed: true });
    expect(await textAt(repository, "d")).toBe("4");
    expect(await textAt(repository, "a")).toBe("1");
  });

  it("GB-14 credentials are in no argument, no error and no process list, also when the remote repeats them", async () => {
    const credentials = { username: "bot", password: "pa ss/w0rd" };
    const { folder, options, http, repository } = await served(credentials);
    const wrapper = await wrappedGit(folder);
    const store = open({ ...options, credentials: () => Promise.resolve(credentials), git: wrapper.program });
    await store.write("a", bytes("1"), { signal });
    expect(await textAt(repository, "a")).toBe("1");
    http.fail("GET", "git-receive-pack", 400);
    const told: unknown[] = [await store.write("a", bytes("2"), { signal }).catch((error: unknown) => error)];
    const wrong = open({
      ...options,
      directory: `${options.directory}-2`,
      credentials: { username: "bot", password: "wr0ng" },
    });
    const denied = await wrong.write("a", bytes("2"), { signal }).catch((error: unknown) => error);
    expect(denied).toMatchObject({ code: "ACCESS_DENIED" });
    const none = open({ ...options, directory: `${options.directory}-3` });
    await expect(none.read("a", { signal })).rejects.toMatchObject({ code: "ACCESS_DENIED" });
    told.push(denied);
    expect(String(told[0])).toContain("400 for Basic ***");
    const texts = [JSON.stringify(told.map(flat)), await wrapper.args()];
    for (const text of texts) expect(text).not.toMatch(/w0rd|wr0ng|Ym90OnBh|pa%20ss/);
  });

  it("a call ends by its signal or the deadline in force, and git with all of its children ends too", async () => {
    const { http, options } = await served();
    const store = open(options);
    await store.write("a", bytes("1"), { signal });
    http.fail("GET", "git-upload-pack", "stalled", 2);
    const abort = new AbortController();
    const read = store.get("a", { signal: abort.signal });
    await until("the request waits", () => http.stalled() === 1);
    expect((await processesWith(options.remote)).length).toBeGreaterThan(1);
    abort.abort("enough");
    await expect(read).rejects.toMatchObject({ code: "CANCELED", cause: "enough" });
    await until("git has ended", async () => (await processesWith(options.remote)).length === 0);
    const bounded = within(1, () => store.head("a", { signal }), { name: "a short one" });
    await expect(bounded).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
    await until("git has ended", async () => (await processesWith(options.remote)).length === 0);
  });

  it("credentials that never come end with the call, and do not keep the next one waiting", async () => {
    const { options } = await served();
    let times = 0;
    const credentials = (): Promise<{ username: string; password: string }> =>
      times++ === 0 ? new Promise(() => undefined) : Promise.resolve({ username: "a", password: "b" });
    const store = open({ ...options, credentials });
    const abort = new AbortController();
    const write = store.write("a", bytes("1"), { signal: abort.signal });
    await until("they were asked for", () => times === 1);
    abort.abort();
    await expect(write).rejects.toMatchObject({ code: "CANCELED" });
    expect(await store.write("a", bytes("2"), { signal })).toMatchObject({ changed: true });
    const failing = open({
      ...options,
      directory: `${options.directory}-2`,
      credentials: () => Promise.reject(new Error("vault")),
    });
    await expect(failing.read("a", { signal })).rejects.toMatchObject({
      code: "ACCESS_DENIED",
      cause: { message: "vault" },
    });
  });

  it("a put whose push is cut by its signal is unknown, and the store can be used at once", async () => {
    const { http, options, repository } = await served();
    const store = open(options);
    await store.write("a", bytes("1"), { signal });
    const head = await headOf(repository);
    http.fail("POST", "git-receive-pack", "stalled");
    const abort = new AbortController();
    const put = store.put("b", bytes("2"), { mode: "create", signal: abort.signal });
    await until("the push waits", () => http.stalled() === 1);
    abort.abort();
    expect(await put).toMatchObject({ outcome: "unknown", error: { code: "CANCELED" } });
    expect(await headOf(repository)).toBe(head);
    expect(await store.put("b", bytes("3"), { mode: "create", signal })).toMatchObject({ outcome: "created" });
  });

  it("an exchange longer than requestTimeoutMs is ended and retried", async () => {
    const { http, options } = await served();
    const store = open(options);
    await store.write("a", bytes("1"), { signal });
    const hasty = open({ ...options, directory: `${options.directory}-2`, requestTimeoutMs: 200, retryBudgetMs: 0 });
    http.fail("GET", "git-upload-pack", "stalled");
    await expect(hasty.read("a", { signal })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("200 ms (requestTimeoutMs)") as string,
    });
  });

  it("disposing of a store ends its calls and its git, and removes its clone; later calls are refused", async () => {
    const { http, options } = await served();
    const store = open(options);
    await store.write("a", bytes("1"), { signal });
    http.fail("GET", "git-upload-pack", "stalled");
    const read = store.read("a", { signal });
    const ended = expect(read).rejects.toMatchObject({ code: "CANCELED" });
    await until("the request waits", () => http.stalled() === 1);
    await store[Symbol.asyncDispose]();
    await ended;
    expect(await processesWith(options.remote)).toEqual([]);
    expect(await readdir(options.directory)).toEqual([]);
    await expect(store.read("a", { signal })).rejects.toMatchObject({ code: "CANCELED" });
  });
});

/** Everything that an error says, its causes included. */
function flat(error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  return {
    ...Object.fromEntries(Object.entries(error)),
    message: error.message,
    stack: error.stack,
    cause: flat(error.cause),
  };
}
