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

const runners = new Set();
function start(/** @type {string} */ name) {
  const child = fork(fileURLToPath(new URL("./runner.mjs", import.meta.url)), [server.url, name]);
  runners.add(child);
  child.once("exit", () => runners.delete(child));
  return child;
}

/** @returns {Promise<{ n: number, runner: string }[]>} */
async function runs() {
  const result = await client.query({
    query: "SELECT toUInt32(n) AS n, runner FROM runs ORDER BY n",
    format: "JSONEachRow",
  });
  return result.json();
}

/** Waits until `name` has done `count` runs; answers how long that took. */
async function hasRun(/** @type {string} */ name, /** @type {number} */ count) {
  const began = performance.now();
  for (;;) {
    if ((await runs()).filter(({ runner }) => runner === name).length >= count)
      return Math.round(performance.now() - began);
    if (performance.now() - began > 30_000) throw new Error(`${name} did not run the job within 30 s`);
    await sleep(20);
  }
}

async function demonstrate() {
  console.log("1. One works, the other waits");
  const one = start("one");
  await hasRun("one", 1);
  const two = start("two");
  await once(two, "message"); // it waits
  await hasRun("one", 3);

  console.log(`2. kill -9 ${one.pid} (one)`);
  one.kill("SIGKILL");
  console.log(
    `   two's first run was recorded ${await hasRun("two", 1)} ms later: the lease had to expire (2000 ms after its last renewal)`,
  );

  console.log("3. A third comes, and two is asked to stop (SIGTERM)");
  await once(start("three"), "message");
  await hasRun("two", 3);
  two.kill("SIGTERM");
  console.log(`   three's first run was recorded ${await hasRun("three", 1)} ms later: two gave the lease back`);
  await hasRun("three", 2);
}

async function watchByHand() {
  start("one");
  start("two");
  for (const child of runners) console.log(`   ${child.spawnargs.at(-1)} has pid ${child.pid}`);
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
  for (const child of runners) child.kill("SIGTERM");
  await Promise.all([...runners].map((child) => once(child, "exit")));
  await client.close();
  await server.stop();
}
