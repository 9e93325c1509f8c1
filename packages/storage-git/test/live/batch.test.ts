// Goal: a batch lands whole as one commit, or not at all, and a write that lost its race says so. Method: writers in processes of their own, each with its own
// clone of one bare repository, which is a directory or git's own HTTP backend. What landed is read with git. Gates in the body of a batch, and commands around
// the calls of git, put a rival exactly where a race is; nothing waits for time.
import { chmod, mkdir, readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openRemote, type Kind, type Remote } from "../support/remotes.js";
import {
  changedBy,
  countOf,
  gitIn,
  headOf,
  messageOf,
  rivalCommits,
  rivalScript,
  textAt,
} from "../support/repositories.js";
import { RemoteWriter, type Command, type Step, type WriterOptions } from "../support/writers.js";

let one: RemoteWriter;
let two: RemoteWriter;
beforeAll(async () => {
  [one, two] = await Promise.all([RemoteWriter.start(), RemoteWriter.start()]);
});
afterAll(() => Promise.all([one.stop(), two.stop()]));

const slow = { tags: ["slow"] };
/** In place of the push: git's words for a connection that broke. */
const notSent = "echo 'fatal: the remote end hung up unexpectedly' >&2; touch \"$SKIP\"";
const batch = (options: WriterOptions, message: string, ...steps: Step[]): Command => ({
  do: "batch",
  options,
  message,
  steps,
});
const write = (path: string, text: string, base?: string | null): Step => ({
  write: path,
  text,
  ...(base === undefined ? {} : { base }),
});

/** The clone of a store is on the remote's head, and nothing that is half done is in it. */
async function expectCleanClone(remote: Remote, name: string): Promise<void> {
  const clones = await readdir(join(remote.folder, name));
  expect(clones).toHaveLength(1);
  const clone = join(remote.folder, name, clones[0]!);
  expect(await gitIn(clone, "rev-parse", "refs/holdfast/fetched")).toBe(await headOf(remote.repository));
  const files = await readdir(clone, { recursive: true });
  expect(files.filter((file) => /\.lock$|(^|\/)index$/.test(file))).toEqual([]);
}

describe.each<{ kind: Kind }>([{ kind: "a directory" }, { kind: "HTTP" }])("a batch on $kind", ({ kind }) => {
  const own = kind === "HTTP" ? slow : {};

  it(
    "GB-01 one commit and one push at the exit, and nothing before; reads inside see what is staged and ask the remote nothing",
    own,
    async () => {
      const remote = await openRemote(kind);
      const { options, git } = await remote.wrapped("one");
      await one.run({ do: "write", options, path: "old", text: "goes" });
      await one.toGate(
        batch(
          options,
          "five and one",
          { gate: "in" },
          ...["a", "b", "c/d", "c/e", "f"].map((path) => write(path, `text of ${path}`)),
          { remove: "old" },
          { read: "c/d" },
          { read: "old" },
          { read: "none" },
          { list: "" },
          { gate: "out" },
        ),
      );
      const before = {
        calls: await git.calls(),
        requests: remote.http?.log.length,
        head: await headOf(remote.repository),
      };
      await one.pass("in");
      const inside = (await git.calls()).slice(before.calls.length);
      expect(inside.filter((call) => ["ls-remote", "fetch", "push"].includes(call))).toEqual([]);
      expect(remote.http?.log.length).toBe(before.requests);
      expect(await headOf(remote.repository)).toBe(before.head);
      const { result } = await one.open("out");
      expect((result?.value as unknown[]).slice(7, 11)).toEqual([
        "text of c/d",
        null,
        null,
        ["a", "b", "c/d", "c/e", "f"],
      ]);
      expect(await countOf(remote.repository)).toBe(2);
      expect(result?.commits).toEqual([await headOf(remote.repository)]);
      expect((await git.calls()).slice(before.calls.length).filter((call) => call === "push")).toHaveLength(1);
      expect(await textAt(remote.repository, "c/e")).toBe("text of c/e");
      expect(await textAt(remote.repository, "old")).toBeNull();
    },
  );

  it("GB-02 the last operation on a path wins, and what changes nothing makes no commit and no push", own, async () => {
    const remote = await openRemote(kind);
    const { options, git } = await remote.wrapped("one");
    await one.run(batch(options, "first", write("a", "1"), write("b", "1"), write("c", "1")));
    const { result } = await one.run(
      batch(
        options,
        "second",
        write("a", "2"),
        { remove: "a" },
        { remove: "b" },
        write("b", "2"),
        write("c", "1"),
        write("new", "x"),
        { remove: "new" },
      ),
    );
    expect(result?.value).toEqual([true, true, true, true, false, true, true].map((changed) => ({ changed })));
    expect([
      await textAt(remote.repository, "a"),
      await textAt(remote.repository, "b"),
      await textAt(remote.repository, "c"),
    ]).toEqual([null, "2", "1"]);
    expect(await changedBy(remote.repository)).toEqual(["a", "b"]);
    const pushes = async () => (await git.calls()).filter((call) => call === "push").length;
    const pushed = await pushes();
    const same = [
      await one.run(batch(options, "the same", write("b", "2"))),
      await one.run(batch(options, "back again", write("b", "3"), write("b", "2"))),
      await one.run(batch(options, "nothing")),
      await one.run({ do: "write", options, path: "c", text: "1" }),
    ];
    expect(same.map((answer) => answer.result?.commits)).toEqual([[], [], [], []]);
    expect(same[3]?.result?.changed).toBe(false);
    expect(await countOf(remote.repository)).toBe(2);
    expect(await pushes()).toBe(pushed);
  });

  it(
    "GB-03 the message is the subject and one line for each change, in order, without repeats; a nested batch joins",
    own,
    async () => {
      const remote = await openRemote(kind);
      const options = remote.options("one");
      await one.run({ do: "write", options, path: "same", text: "s" });
      expect(await messageOf(remote.repository)).toBe("write same");
      const { result } = await one.run(
        batch(
          options,
          "the outer subject",
          { write: "b", text: "1", message: "change the policy" },
          write("same", "s"),
          { write: "a", text: "1", message: "change the policy" },
          { batch: "the inner subject", steps: [write("c", "1"), { remove: "same" }, { remove: "absent" }] },
          write("c", "2"),
        ),
      );
      expect(result?.commits).toHaveLength(1);
      expect(await messageOf(remote.repository)).toBe(
        "the outer subject\n\n- change the policy\n- write c\n- remove same",
      );
      expect(await countOf(remote.repository)).toBe(2);
    },
  );

  it(
    "GB-04 an error in the body discards everything, in an empty repository too, and the next change carries only itself",
    own,
    async () => {
      const remote = await openRemote(kind);
      const options = remote.options("one");
      const failing = batch(options, "never", write("a", "1"), write("b", "1"), write("c", "1"), {
        throw: "no further",
      });
      const first = await one.run(failing);
      expect(first.error?.message).toBe("no further");
      expect(await headOf(remote.repository)).toBeNull();
      await one.run({ do: "write", options, path: "kept", text: "k" });
      expect(await changedBy(remote.repository)).toEqual(["kept"]);
      const head = await headOf(remote.repository);
      expect((await one.run(failing)).error?.message).toBe("no further");
      expect(await headOf(remote.repository)).toBe(head);
      expect((await one.run({ do: "read", options, path: "a" })).result).toEqual({ text: null, revision: head });
      await one.run({ do: "write", options, path: "next", text: "n" });
      expect(await changedBy(remote.repository)).toEqual(["next"]);
      expect(await gitIn(remote.repository, "fsck", "--strict")).toBe("");
    },
  );

  it(
    "GB-05 a push onto a branch that has moved is refused and never forced: the rival's commit stays in a linear history",
    own,
    async () => {
      const remote = await openRemote(kind);
      await one.run({ do: "write", options: remote.options("one"), path: "a", text: "1" });
      const rival = { command: "push", call: 1, before: rivalScript(remote.repository, "a", "rival") };
      const { options, git } = await remote.wrapped("one", [rival]);
      const base = await headOf(remote.repository);
      const { error } = await one.run({ do: "write", options, path: "a", text: "2", base });
      expect(error?.code).toBe("CONCURRENCY_CONFLICT");
      expect(await textAt(remote.repository, "a")).toBe("rival");
      expect(await gitIn(remote.repository, "log", "--format=%P", "main")).toBe(`${base}\n`);
      expect(await git.args()).not.toMatch(/push .*--force |push .*\+/);
    },
  );

  it(
    "GB-06 an unconditional change that lost its race is made again once, and the rival's other paths survive",
    own,
    async () => {
      const remote = await openRemote(kind);
      const [mine, theirs] = [remote.options("one"), remote.options("two")];
      await one.run({ do: "write", options: mine, path: "a", text: "0" });
      await one.toGate(batch(mine, "mine", write("a", "mine"), write("mine", "m"), { gate: "out" }));
      await two.run(batch(theirs, "theirs", write("a", "theirs"), write("theirs", "t")));
      expect((await one.open("out")).result?.commits).toHaveLength(1);
      const texts = ["a", "mine", "theirs"].map((path) => textAt(remote.repository, path));
      expect(await Promise.all(texts)).toEqual(["mine", "m", "t"]);
      expect(await countOf(remote.repository)).toBe(3);
      // A change by itself, whose rival comes between its look and its push.
      const { options, git } = await remote.wrapped("one", [
        { command: "push", call: 1, before: rivalScript(remote.repository, "other", "o") },
      ]);
      expect((await one.run({ do: "write", options, path: "plain", text: "p" })).result?.changed).toBe(true);
      expect([await textAt(remote.repository, "plain"), await textAt(remote.repository, "other")]).toEqual(["p", "o"]);
      expect((await git.calls()).filter((call) => call === "push")).toHaveLength(2);
    },
  );

  it(
    "GB-06 a second rival is an error without a third push; when nothing is left to change that is success",
    own,
    async () => {
      const remote = await openRemote(kind);
      const rival = (call: number) => ({
        command: "push",
        call,
        before: rivalScript(remote.repository, "rival", String(call)),
      });
      const twice = await remote.wrapped("one", [rival(1), rival(2), rival(3)]);
      const lost = await one.run(batch(twice.options, "mine", write("a", "mine")));
      expect(lost.error?.code).toBe("UNAVAILABLE");
      expect((await twice.git.calls()).filter((call) => call === "push")).toHaveLength(2);
      expect(await textAt(remote.repository, "a")).toBeNull();
      const same = await remote.wrapped("one", [
        { command: "push", call: 1, before: rivalScript(remote.repository, "a", "same") },
      ]);
      const { result } = await one.run(batch(same.options, "mine", write("a", "same")));
      expect(result?.commits).toEqual([]);
      expect(await gitIn(remote.repository, "log", "-1", "--format=%an", "main")).toBe("rival");
    },
  );

  it("GB-06 a refusal while the branch did not move is raised as it is, after one push", own, async () => {
    const remote = await openRemote(kind);
    await one.run({ do: "write", options: remote.options("one"), path: "a", text: "1" });
    const hook = join(remote.repository, "hooks", "pre-receive");
    await writeHook(hook, "#!/bin/sh\necho 'only on weekdays' >&2\nexit 1\n");
    const { options, git } = await remote.wrapped("one");
    const { error } = await one.run(batch(options, "mine", write("a", "2")));
    expect(error?.code).toBe("ACCESS_DENIED");
    expect(error?.message).toContain("only on weekdays");
    expect((await git.calls()).filter((call) => call === "push")).toHaveLength(1);
    expect(await textAt(remote.repository, "a")).toBe("1");
  });

  it(
    "GB-07 a push whose answer was lost but that landed is success with one commit, with a condition and a rival on top too",
    own,
    async () => {
      const remote = await openRemote(kind);
      const setUp = await one.run({ do: "write", options: remote.options("one"), path: "a", text: "0" });
      expect(setUp.error).toBeUndefined();
      const lost = `echo 'fatal: the remote end hung up unexpectedly' >&2; code=128`;
      const runs: [string, string | null, string][] = [
        ["plain", null, lost],
        ["conditional", "HEAD", lost],
        ["a rival on top", "HEAD", `(${rivalScript(remote.repository, "rival", "r")}); ${lost}`],
      ];
      for (const [text, base, after] of runs) {
        const before = await countOf(remote.repository);
        const { options } = await remote.wrapped("one", [{ command: "push", call: 1, after }]);
        const answer = await one.run(batch(options, text, write("a", text, base)));
        expect(answer.error, text).toBeUndefined();
        expect(answer.result?.commits).toHaveLength(1);
        expect(await textAt(remote.repository, "a")).toBe(text);
        expect(await countOf(remote.repository)).toBe(before + (text === "a rival on top" ? 2 : 1));
      }
      remote.http?.fail("POST", "git-receive-pack", "lost");
      const before = await countOf(remote.repository);
      const answer = await one.run(batch(remote.options("one"), "over the wire", write("a", "wire", "HEAD")));
      expect(answer.error).toBeUndefined();
      expect(await countOf(remote.repository)).toBe(before + 1);
    },
  );

  it(
    "GB-08 a stale base, or a push that lost, is a conflict with path, current content and head; a null base writes",
    own,
    async () => {
      const remote = await openRemote(kind);
      const options = remote.options("one");
      const base = (await one.run({ do: "write", options, path: "a", text: "1" })).result?.revision ?? null;
      await two.run({ do: "write", options: remote.options("two"), path: "a", text: "2" });
      const head = await headOf(remote.repository);
      const conflict = {
        name: "ConcurrencyConflictError",
        code: "CONCURRENCY_CONFLICT",
        status: 409,
        path: "a",
        current: "2",
        head,
      };
      expect((await one.run({ do: "write", options, path: "a", text: "3", base })).error).toMatchObject(conflict);
      expect((await one.run({ do: "remove", options, path: "a", base })).error).toMatchObject(conflict);
      expect(await headOf(remote.repository)).toBe(head);
      // The rival comes after the guard and before the push.
      const raced = await remote.wrapped("one", [
        { command: "push", call: 1, before: rivalScript(remote.repository, "a", "rival") },
      ]);
      const lost = await one.run({ do: "write", options: raced.options, path: "a", text: "3", base: head });
      expect(lost.error).toMatchObject({ ...conflict, current: "rival", head: await headOf(remote.repository) });
      expect((await one.run({ do: "write", options, path: "a", text: "3", base: null })).error).toBeUndefined();
      expect(await textAt(remote.repository, "a")).toBe("3");
    },
  );

  it(
    "GB-08 a guard that fails inside a batch names its own write and discards the batch, even if the body goes on",
    own,
    async () => {
      const remote = await openRemote(kind);
      const options = remote.options("one");
      const base = (await one.run({ do: "write", options, path: "a", text: "1" })).result?.revision ?? null;
      await rivalCommits(remote.repository, "b", "rival");
      const head = await headOf(remote.repository);
      const stale: Step = { write: "b", text: "2", base, caught: true };
      const after: Step = { write: "d", text: "4", caught: true };
      const { error } = await one.run(batch(options, "mine", write("c", "3"), stale, after));
      expect(error).toMatchObject({ code: "CONCURRENCY_CONFLICT", path: "b", current: "rival", head });
      expect(await headOf(remote.repository)).toBe(head);
      await expectCleanClone(remote, "one");
    },
  );

  it(
    "GB-09 GB-10 GB-11 an unconditional, then two conditional writes, and a rival before the exit: the first conditional one is named, and nothing of ours lands",
    own,
    async () => {
      const remote = await openRemote(kind);
      const options = remote.options("one");
      await one.run(batch(options, "first", write("b", "0"), write("c", "0")));
      await one.toGate(
        batch(options, "mine", write("a", "1"), write("b", "1", "HEAD"), write("c", "1", "HEAD"), { gate: "out" }),
      );
      await two.run(batch(remote.options("two"), "theirs", write("b", "theirs"), write("d", "theirs")));
      const head = await headOf(remote.repository);
      const { error } = await one.open("out");
      expect(error).toMatchObject({
        name: "ConcurrencyConflictError",
        code: "CONCURRENCY_CONFLICT",
        status: 409,
        path: "b",
        current: "theirs",
        head,
      });
      expect(await headOf(remote.repository)).toBe(head);
      const texts = ["a", "b", "c", "d"].map((path) => textAt(remote.repository, path));
      expect(await Promise.all(texts)).toEqual([null, "theirs", "0", "theirs"]);
      await expectCleanClone(remote, "one");
    },
  );

  it(
    "GB-10 one conditional write makes the whole batch conditional: GB-06 does not apply to the others in it",
    own,
    async () => {
      const remote = await openRemote(kind);
      const options = remote.options("one");
      await one.run({ do: "write", options, path: "x", text: "0" });
      await one.toGate(
        batch(options, "mine", write("a", "1"), write("x", "1", "HEAD"), write("b", "1"), { gate: "out" }),
      );
      await rivalCommits(remote.repository, "elsewhere", "r");
      expect((await one.open("out")).error).toMatchObject({ code: "CONCURRENCY_CONFLICT", path: "x", current: "0" });
      expect([await textAt(remote.repository, "a"), await textAt(remote.repository, "b")]).toEqual([null, null]);
    },
  );

  it(
    "GB-11 current is null when the rival removed it, and a conditional write that changes nothing counts as the first",
    own,
    async () => {
      const remote = await openRemote(kind);
      const options = remote.options("one");
      await one.run(batch(options, "first", write("a", "0"), write("b", "0")));
      await one.toGate(batch(options, "mine", write("a", "0", "HEAD"), write("b", "1", "HEAD"), { gate: "out" }));
      await rivalCommits(remote.repository, "a", null);
      const { error } = await one.open("out");
      expect(error).toMatchObject({
        code: "CONCURRENCY_CONFLICT",
        path: "a",
        current: null,
        head: await headOf(remote.repository),
      });
    },
  );

  it(
    "GB-12 a conditional write in a joined batch is recorded in the outer one, and answered once at its exit",
    own,
    async () => {
      const remote = await openRemote(kind);
      const options = remote.options("one");
      await one.run({ do: "write", options, path: "b", text: "0" });
      const inner: Step = { batch: "inner", steps: [write("b", "1", "HEAD")] };
      await one.toGate(batch(options, "outer", write("a", "1"), inner, { gate: "out" }, write("c", "1")));
      await rivalCommits(remote.repository, "b", "rival");
      expect((await one.open("out")).error).toMatchObject({
        code: "CONCURRENCY_CONFLICT",
        path: "b",
        current: "rival",
      });
      expect(await countOf(remote.repository)).toBe(2);
    },
  );

  it("GB-12 a joined batch that fails discards the outer one, even when the outer body catches it", own, async () => {
    const remote = await openRemote(kind);
    const options = remote.options("one");
    await one.run({ do: "write", options, path: "a", text: "0" });
    const inner: Step = { batch: "inner", steps: [write("b", "1"), { throw: "half way" }], caught: true };
    const { error } = await one.run(batch(options, "outer", write("a", "1"), inner));
    expect(error?.message).toBe("half way");
    expect([await textAt(remote.repository, "a"), await textAt(remote.repository, "b")]).toEqual(["0", null]);
  });

  it(
    "GB-12 a review branch splits the batch: what is staged lands first and the branch begins there",
    own,
    async () => {
      const remote = await openRemote(kind);
      const options = remote.options("one");
      const review = (path: string): Step => ({ write: path, text: `review ${path}`, branch: "review/one" });
      const { result } = await one.run(
        batch(options, "split", write("a", "1"), review("p"), review("q"), write("b", "1")),
      );
      expect(result?.commits).toHaveLength(2);
      const [first, second] = result?.commits ?? [];
      expect(await gitIn(remote.repository, "rev-list", "main")).toBe(`${second}\n${first}`);
      expect(await gitIn(remote.repository, "rev-parse", "review/one~2")).toBe(first);
      expect(await textAt(remote.repository, "q", "review/one")).toBe("review q");
      expect(await textAt(remote.repository, "p")).toBeNull();
      const again = await one.run(batch(options, "again", review("p")));
      expect(again.error).toMatchObject({ code: "PRECONDITION_FAILED" });
    },
  );

  it("GB-12 a split that loses its race is a conflict in the body, and the rest is discarded", own, async () => {
    const remote = await openRemote(kind);
    const options = remote.options("one");
    await one.run({ do: "write", options, path: "a", text: "0" });
    const review: Step = { write: "p", text: "p", branch: "review/one", caught: true };
    await one.toGate(
      batch(options, "split", write("a", "1", "HEAD"), { gate: "out" }, review, {
        write: "b",
        text: "1",
        caught: true,
      }),
    );
    await rivalCommits(remote.repository, "a", "rival");
    const head = await headOf(remote.repository);
    expect((await one.open("out")).error).toMatchObject({
      code: "CONCURRENCY_CONFLICT",
      path: "a",
      current: "rival",
      head,
    });
    expect(await headOf(remote.repository)).toBe(head);
    expect(await headOf(remote.repository, "review/one")).toBeNull();
  });

  it(
    "GB-14 transient failures are retried with the same commit inside the budget, and then answer a typed error",
    own,
    async () => {
      const remote = await openRemote(kind);
      // A push that never reaches the remote: git is sent to another place for it.
      const failing = (call: number) => ({ command: "push", call, before: notSent });
      const part = await remote.wrapped("one", [failing(1), failing(2)]);
      expect((await one.run(batch(part.options, "mine", write("a", "1")))).result?.commits).toHaveLength(1);
      expect(await countOf(remote.repository)).toBe(1);
      const pushed = (await part.git.args()).match(/[0-9a-f]{40}:refs\/heads\/main/g) ?? [];
      expect(pushed).toHaveLength(3);
      expect(new Set(pushed).size).toBe(1);
      // All of the budget: nothing can be reached.
      const gone = {
        ...remote.options("one"),
        remote: "http://127.0.0.1:1/gone.git",
        allowHttp: true,
        retryBudgetMs: 200,
      };
      const { error } = await one.run(batch(gone, "mine", write("a", "1")));
      expect(error).toMatchObject({ name: "RemoteUnavailableError", code: "UNAVAILABLE", outcome: "not-sent" });
    },
  );
});

async function writeHook(file: string, text: string): Promise<void> {
  await mkdir(join(file, ".."), { recursive: true });
  await writeFile(file, text);
  await chmod(file, 0o755);
}
