// Goal: of eight processes that create one key exactly one wins, and it knows, also when the answer that would have told it is lost.
// Method: the server in a process of its own, and each writer in one of its own behind a proxy that loses every fifth answer to an upload;
// the objects say who won.
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { expect, it, onTestFinished } from "vitest";
import { emulator, storeAt } from "../support/emulator.js";

const never = new AbortController().signal;
const conditions = process.env["HOLDFAST_TEST_TARGET"] === "dist" ? [] : ["--conditions=@holdfast/source"];
const tsx = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;
const writers = 8;
const keysPerRound = 20;
const keysInAll = process.env["HOLDFAST_LONG"] === undefined ? 40 : 1_000;

type Round = { pid: number; lost: number; ends: [key: string, outcome: string][] };

function start(file: string, ...args: string[]): ChildProcess {
  const env = { ...process.env, NODE_OPTIONS: "" };
  const execArgv = [...conditions, "--import", tsx];
  const child = fork(fileURLToPath(new URL(file, import.meta.url)), args, { env, execArgv });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}

/** The next message of a process; an error when it ends without one. */
async function said(child: ChildProcess): Promise<unknown> {
  const ended = new AbortController();
  const onExit = (): void => ended.abort(new Error("a process of the race ended without an answer"));
  child.once("exit", onExit);
  try {
    return ((await once(child, "message", { signal: ended.signal })) as unknown[])[0];
  } finally {
    child.off("exit", onExit);
  }
}

async function openServer(): Promise<{ url: string; bucket: string }> {
  if (process.env["STORAGE_EMULATOR_HOST"] !== undefined) return emulator();
  return { url: (await said(start("race-server.ts"))) as string, bucket: "race" };
}

const title = `eight processes race to create ${keysInAll} keys or more: each has one winner, who knows it, whatever answer was lost`;
it(title, { tags: ["slow"] }, async () => {
  const { url, bucket } = await openServer();
  const racers = Array.from({ length: writers }, () => start("racer.ts", url, bucket));
  expect(await Promise.all(racers.map(said))).toEqual(racers.map(() => "ready"));
  const winners = new Map<string, number>();
  let lost = 0;
  // A run in which one of them did everything would show nothing.
  let from = 0;
  for (; from < keysInAll || new Set(winners.values()).size < 2; from += keysPerRound) {
    const keys = Array.from({ length: keysPerRound }, (_, i) => `race/${from + i}`);
    const rounds = await Promise.all(
      racers.map((racer, n) => {
        // Each begins at another key, so that they meet and none is first everywhere.
        const begin = Math.floor((n * keysPerRound) / writers);
        const ends = said(racer) as Promise<Round>;
        racer.send([...keys.slice(begin), ...keys.slice(0, begin)]);
        return ends;
      }),
    );
    lost = rounds.reduce((sum, round) => sum + round.lost, 0);
    for (const { pid, ends } of rounds) {
      for (const [key, outcome] of ends) {
        expect(["created", "conflict"]).toContain(outcome);
        if (outcome !== "created") continue;
        expect(winners.has(key), `${key} has two winners`).toBe(false);
        winners.set(key, pid);
      }
    }
  }
  expect(winners.size, "each key has a winner").toBe(from);
  expect(lost, "answers were lost").toBeGreaterThan(from);
  const store = storeAt(url, bucket);
  for (const [key, pid] of winners) {
    const { bytes } = await store.get(key, { signal: never });
    expect(Buffer.from(bytes).toString()).toBe(`${pid} ${key}`);
  }
});
