// Goal: of two processes that create one key exactly one wins, and it knows, also when the answer that would have told it is lost.
// Method: two processes on a real server, each behind a proxy that loses every fifth success; the objects say who won.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { fileURLToPath, pathToFileURL } from "node:url";
import { describe, expect, it, onTestFinished } from "vitest";
import { bucketOfThisFile, openStore, server } from "../support/rgw.js";

const never = new AbortController().signal;
const conditions = process.env["HOLDFAST_TEST_TARGET"] === "dist" ? [] : ["--conditions=@holdfast/source"];
const tsx = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;
const keysPerRound = 20;

type Round = { pid: number; lost: number; ends: [key: string, outcome: string][] };

function start(bucket: string) {
  const racer = fileURLToPath(new URL("racer.ts", import.meta.url));
  const args = [...conditions, "--import", tsx, racer, bucket];
  const env = { ...process.env, AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: "true", NODE_OPTIONS: "" };
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"], env });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const line = async (): Promise<unknown> => {
    const next = await lines.next();
    if (next.done === true) throw new Error("a racer ended without an answer");
    return JSON.parse(next.value) as unknown;
  };
  return { line, tell: (text: string) => child.stdin.write(`${text}\n`) };
}

describe.skipIf(server === null)("two processes on a real server", () => {
  const bucket = bucketOfThisFile();

  const race = async (keysInAll: number) => {
    const racers = [start(bucket), start(bucket)];
    for (const one of racers) expect(await one.line()).toBe("ready");
    const winners = new Map<string, number>();
    const wins = [0, 0];
    let lost = 0;
    // A run in which one of them came too late for every key would show nothing.
    let from = 0;
    for (; from < keysInAll || Math.min(...wins) === 0; from += keysPerRound) {
      const keys = Array.from({ length: keysPerRound }, (_, i) => `race/${keysInAll}/${from + i}`);
      // One from the start and one from the end, so that they meet and neither is first everywhere.
      racers[0]!.tell(keys.join(" "));
      racers[1]!.tell(keys.reverse().join(" "));
      const rounds = (await Promise.all(racers.map((one) => one.line()))) as Round[];
      lost = rounds[0]!.lost + rounds[1]!.lost;
      for (const [n, { pid, ends }] of rounds.entries()) {
        for (const [key, outcome] of ends) {
          expect(["created", "conflict"]).toContain(outcome);
          if (outcome !== "created") continue;
          expect(winners.has(key), `${key} has two winners`).toBe(false);
          winners.set(key, pid);
          wins[n]!++;
        }
      }
    }
    expect(winners.size, "each key has a winner").toBe(from);
    expect(lost, "answers were lost").toBeGreaterThan(from / 10);
    const store = openStore({ bucket });
    for (const [key, pid] of winners) {
      const { bytes } = await store.get(key, { signal: never });
      expect(Buffer.from(bytes).toString()).toBe(`${pid} ${key}`);
    }
  };
  const title = "race to create %i keys or more: each has one winner, who knows it, whatever answer was lost";
  it.each([100])(title, race);
  it.each([process.env["HOLDFAST_LONG"] === undefined ? 200 : 1_000])(title, { tags: ["slow"] }, race);
});
