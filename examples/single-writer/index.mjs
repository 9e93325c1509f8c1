// @ts-check
// A job that must have one runner. Starts a ClickHouse and two runners, kills the one that works, and shows that the other takes over; with
// --by-hand it leaves the killing to you.
import { ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { startEmbeddedClickHouse } from "@holdfast/clickhouse-embedded";
import { fork } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

const byHand = process.argv.includes("--by-hand");
const server = await startEmbeddedClickHouse();
const client = createClient({ url: server.url, log: { level: ClickHouseLogLevel.OFF } });
await client.command({ query: "CREATE TABLE runs (n UInt64, runner String) ENGINE = MergeTree ORDER BY n" });

/** @type {Map<string, import("node:child_process").ChildProcess>} */
const runners = new Map();
function start(/** @type {string} */ name) {
  const child = fork(fileURLToPath(new URL("./runner.mjs", import.meta.url)), [server.url, name]);
  runners.set(name, child);
  child.once("exit", () => runners.delete(name));
  return child;
}

/** @returns {Promise<{ n: number, runner: string }[]>} */
async function runs() {
  const query = "SELECT toUInt32(n) AS n, runner FROM runs ORDER BY n";
  return (await client.query({ query, format: "JSONEachRow" })).json();
}

/** Waits for `count` more runs that fit, and answers who did the last one. */
async function moreRuns(/** @type {number} */ count, fits = (/** @type {string} */ _runner) => true) {
  const before = (await runs()).length;
  for (const began = performance.now(); performance.now() - began < 60_000; await sleep(20)) {
    const fitting = (await runs()).slice(before).filter(({ runner }) => fits(runner));
    if (fitting.length >= count) return fitting[count - 1]?.runner ?? "";
  }
  throw new Error("nobody ran the job within 60 s");
}

/** Ends whoever works, and tells how long it took until another one did. */
async function end(/** @type {string} */ worker, /** @type {NodeJS.Signals} */ signal, /** @type {string} */ why) {
  const began = performance.now();
  runners.get(worker)?.kill(signal);
  const next = await moreRuns(1, (runner) => runner !== worker);
  console.log(`   ${next}'s first run was recorded ${Math.round(performance.now() - began)} ms later: ${why}`);
}

async function demonstrate() {
  console.log("1. One works, the other waits");
  start("one");
  await moreRuns(1);
  await once(start("two"), "message"); // it waits
  const first = await moreRuns(2);

  console.log(`2. kill -9 ${runners.get(first)?.pid} (${first})`);
  await end(first, "SIGKILL", "the lease had to expire (4000 ms after its last renewal)");

  console.log("3. A third comes, and the one that works is asked to stop (SIGTERM)");
  await once(start("three"), "message");
  await end(await moreRuns(2), "SIGTERM", "the lease was given back");
  await moreRuns(1);
}

async function watchByHand() {
  start("one");
  start("two");
  for (const [name, { pid }] of runners) console.log(`   ${name} has pid ${pid}`);
  console.log(
    "Kill one: kill -9 PID, kill -TERM PID, or kill -STOP PID and later kill -CONT PID. Ctrl-C ends the example.",
  );
  await once(process, "SIGINT");
}

/** What the lease promises, checked in the table. */
async function verify() {
  const all = await runs();
  const inOrder = all.every(({ n }, at) => n === at + 1);
  const turns = all.filter(({ runner }, at) => at === 0 || runner !== all[at - 1]?.runner).map(({ runner }) => runner);
  if (!inOrder) throw new Error(`the runs are not 1 to ${all.length}, each once: two runners worked at the same time`);
  console.log(
    `Done: ${all.length} runs, numbered 1 to ${all.length}, each once; the runners were, in turn: ${turns.join(", ")}.`,
  );
}

try {
  await (byHand ? watchByHand() : demonstrate());
  await verify();
} finally {
  const ended = [...runners.values()].map((child) => once(child, "exit"));
  for (const child of runners.values()) child.kill("SIGTERM");
  await Promise.all(ended);
  await client.close();
  await server.stop();
}
