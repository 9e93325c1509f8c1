// Goal: a writer that is killed leaves no half of a batch, and nothing that stops the next one or that a person must clear away. Method: a real process is killed by
// SIGKILL around each call of git, alone or together with its git; also while the remote holds the lock of the branch. Then another writer, whose clone is beside what
// was left, writes the same paths. What is there is read with git.
import { chmod, mkdir, readdir, stat, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { instantAfter, systemClock } from "@holdfast/deadline-http";
import { describe, expect, it, onTestFinished } from "vitest";
import { until } from "@holdfast-private/tests-machine";
import { gitStore } from "@holdfast/storage-git";
import { processesWith } from "../support/processes.js";
import { openRemote, type Remote } from "../support/remotes.js";
import { countOf, gitIn, textAt } from "../support/repositories.js";
import { RemoteWriter, type Command, type WriterOptions } from "../support/writers.js";

const { signal } = new AbortController();
/** Ends what hangs: less where a fault is put in. */
const hangMs = Number(process.env["HOLDFAST_HANG_MS"] ?? 2_400_000);
const laterMs = 24 * 3_600_000;

const killed = (options: WriterOptions): Command => ({
  do: "batch",
  options,
  message: "of the killed writer",
  steps: ["a", "b"].map((path) => ({ write: path, text: "killed" })),
});

/** Runs the batch in a process that does not live to its end. */
async function runAndDie(options: WriterOptions): Promise<void> {
  const writer = await RemoteWriter.start();
  onTestFinished(() => writer.kill());
  writer.send(killed(options));
  await writer.exited;
  // What the writer's git has begun it may still end.
  await until("git has ended", async () => (await processesWith(options.git ?? "")).length === 0);
}

/** The batch of the killed writer is there whole or not at all; the next writer, a day later, writes, and clears away what the killed one left. */
async function expectUsable(remote: Remote): Promise<void> {
  const texts = await Promise.all(["a", "b"].map((path) => textAt(remote.repository, path)));
  expect(texts[0]).toBe(texts[1]);
  const before = await countOf(remote.repository);
  // A day later, with pauses that take no time.
  let sleptMs = 0;
  const clock = {
    now: () => instantAfter(systemClock.now(), sleptMs),
    wallMs: () => systemClock.wallMs() + laterMs,
    sleep: (ms: number) => Promise.resolve(void (sleptMs += ms)),
    setTimer: systemClock.setTimer.bind(systemClock),
  };
  await using store = gitStore({
    ...remote.options("clones"),
    retryBudgetMs: hangMs / 4,
    cloneMaxAgeMs: 60_000,
    clock,
  });
  const written = await store.batch(
    "of the next writer",
    async (batch) => {
      await batch.write("a", Buffer.from("next"));
      await batch.write("b", Buffer.from("next"), { baseRevision: batch.revision });
    },
    { signal },
  );
  expect(written.commits).toHaveLength(1);
  expect(await countOf(remote.repository)).toBe(before + 1);
  expect([await textAt(remote.repository, "a"), await textAt(remote.repository, "b")]).toEqual(["next", "next"]);
  expect(await gitIn(remote.repository, "fsck", "--strict", "--no-dangling")).toBe("");
  expect(await readdir(join(remote.folder, "clones"))).toHaveLength(1);
}

type GitCommand = "init" | "ls-remote" | "fetch" | "fast-import" | "push";
const ways = [
  { how: "before it, git with it", way: { before: "kill -9 $SELF; kill -9 0" } },
  { how: "before it, while git goes on", way: { before: "kill -9 $SELF" } },
  { how: "after it", way: { after: "kill -9 $SELF" } },
];
const deathsAt = (...commands: readonly GitCommand[]) =>
  commands.flatMap((command) => ways.map(({ how, way }) => ({ command, how, way })));
type Death = ReturnType<typeof deathsAt>[number];

describe("a writer that is killed", () => {
  const title = "at git $command, $how: the next one finds a usable repository";
  const diesAt = async ({ command, way }: Death): Promise<void> => {
    const remote = await openRemote("a directory");
    await using first = gitStore(remote.options("first"));
    await first.write("a", Buffer.from("old"), { signal });
    await first.write("b", Buffer.from("old"), { signal });
    const { options } = await remote.wrapped("clones", [{ command, call: 1, ...way }]);
    await runAndDie(options);
    await expectUsable(remote);
  };
  it.each(deathsAt("fast-import", "push"))(title, diesAt);
  it.each(deathsAt("init", "ls-remote", "fetch"))(title, { tags: ["slow"] }, diesAt);

  it("while the remote holds the lock of the branch: the lock file that stays is removed when it is old", async () => {
    const remote = await openRemote("a directory");
    await using first = gitStore(remote.options("first"));
    await first.write("a", Buffer.from("old"), { signal });
    await first.write("b", Buffer.from("old"), { signal });
    // Git runs this when it holds the lock files of the branch and of HEAD, and is about to rename it.
    const hooks = join(remote.repository, "hooks");
    await mkdir(hooks, { recursive: true });
    const hook = join(hooks, "reference-transaction");
    const writers = join(remote.folder, "writer");
    await writeFile(
      hook,
      `#!/bin/sh\nif test "$1" = prepared; then rm -f "$0"; kill -9 $(cat '${writers}') $PPID; fi\n`,
    );
    await chmod(hook, 0o755);
    const { options } = await remote.wrapped("clones", [
      { command: "push", call: 1, before: `echo $SELF > '${writers}'` },
    ]);
    await runAndDie(options);
    const lock = join(remote.repository, "refs", "heads", "main.lock");
    expect((await stat(lock)).isFile()).toBe(true);
    // While it may be that of a living git, it stays, and the error says why nothing is written.
    await using early = gitStore({ ...remote.options("early"), retryBudgetMs: 1 });
    await expect(early.write("c", Buffer.from("c"), { signal })).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("main.lock") as string,
    });
    expect((await stat(lock)).isFile()).toBe(true);
    await expectUsable(remote);
    await expect(stat(lock)).rejects.toMatchObject({ code: "ENOENT" });
  });
});
