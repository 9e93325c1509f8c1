/**
 * Goal: a renewal, or a request under the lease, that stalls stops its holder while the row still lives. Method: a holder in a process of its own on the real engine, its
 * lease statements held back by a forwarder; the rows are the oracle, the holder's own looks at its status are judged against them.
 */
import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { acquireLease } from "../../src/index.js";
import { sleep, startEngine, until, type Engine } from "../support/engine.js";
import { holdingProxy, type HoldingProxy } from "../support/holding-proxy.js";
import type { Watched } from "../support/watched-holder.js";

let engine: Engine;
let proxy: HoldingProxy;
let held: (statement: string) => boolean = () => false;
const forever = new Promise<void>(() => undefined);

beforeAll(async () => {
  engine = await startEngine();
  await engine.run("CREATE TABLE work (n UInt8) ENGINE = MergeTree ORDER BY n");
  proxy = await holdingProxy(engine.server.url, (statement) => (held(statement) ? forever : undefined));
});
afterAll(async () => {
  await proxy.stop();
  await engine.stop();
});

function holder(name: string, ...statement: string[]): ChildProcess {
  const path = fileURLToPath(new URL("../support/watched-holder.ts", import.meta.url));
  return fork(path, [proxy.url, name, ...statement], {
    execArgv: ["--conditions=@holdfast/source", "--import", "tsx"],
  });
}

interface Seen {
  readonly watched: Watched;
  /** Stamp and expiry, in wall ms, of the claim that kept rivals out at the end. */
  readonly acquired: number;
  readonly expires: number;
}

/** Runs a holder, stalls what `stalled` picks once it holds, and lets a rival look for the lease till it has it. */
async function watch(
  name: string,
  stalled: (statement: string) => boolean,
  unconfirmed: number,
  statement?: string,
): Promise<Seen> {
  held = () => false;
  const child = holder(name, ...(statement === undefined ? [] : [statement]));
  try {
    const messages: object[] = [];
    child.on("message", (message) => messages.push(message as object));
    await until(() => messages.length === 1, 60_000);
    const { held: leaseId } = messages[0] as { held: string };
    held = stalled;
    // A rival that looks all the time: what it is told is the table's word on when the lease was over.
    const rival = await acquireLease({
      client: engine.client(),
      name,
      holder: "rival",
      ttlMs: 3000,
      lease: { publishTimeoutMs: 1000, acquirePollMs: 20 },
      waitMs: 30_000,
    });
    await sleep(1000);
    child.send({ stop: true });
    await until(() => messages.length === 2, 30_000);
    const watched = messages[1] as Watched;
    const rows = await engine.rows<{ acquired: number; expires: number; holder: string; lease: string }>(
      "SELECT acquired_at_ns / 1e6 AS acquired, expires_at_ns / 1e6 AS expires, holder, toString(lease_id) AS lease FROM holdfast_publisher_lease WHERE name = {name:String} ORDER BY term",
      { name },
    );
    const own = rows.filter(({ lease }) => lease === leaseId);
    const first = rows.find((row) => row.holder === "rival")!;
    expect(first.acquired).toBeGreaterThanOrEqual(own.at(-1)!.expires);
    await rival.stop();
    const { acquired, expires } = own.at(-1 - unconfirmed)!;
    return { watched, acquired, expires };
  } finally {
    held = () => false;
    if (child.exitCode === null) child.kill("SIGKILL");
  }
}

/** Given up while its row lived, and never shown held after; and looked at often enough to say so. */
function judge({ watched, acquired, expires }: Seen): void {
  const { quarantineBegan, samples, loopDelayMs } = watched;
  const after = (quarantineBegan ?? 0) - acquired;
  expect(after).toBeGreaterThanOrEqual(2000);
  expect(after).toBeLessThanOrEqual(2950 + loopDelayMs);
  expect(quarantineBegan).toBeLessThan(expires);
  // Nine in ten of 100 looks a second, and 20 around the end of the row.
  const around = samples.filter(([at]) => at >= acquired + 2700 && at <= expires + 1000);
  expect(around.length).toBeGreaterThanOrEqual(20);
  const spanMs = samples.at(-1)![0] - samples[0]![0];
  expect(samples.length).toBeGreaterThanOrEqual(0.9 * (spanMs / 10));
  expect(samples.filter(([at, state]) => state === "held" && at >= expires)).toEqual([]);
}

it.each([
  ["head read", (statement: string) => statement.startsWith("SELECT toString(term)")],
  ["claim INSERT", (statement: string) => statement.startsWith("INSERT") && statement.includes("ttl_ns")],
  ["read-back", (statement: string) => statement.startsWith("SELECT toString(lease_id)")],
])(
  "LK-11 with the %s of a renewal stalled, the lease is given up while its row lives, and never shown held after",
  async (what, stalled) => {
    // With the read-back stalled the newest row of ours is one that was never confirmed.
    const seen = await watch(`stalled ${what}`, stalled, what === "read-back" ? 1 : 0);
    judge(seen);
    expect(seen.watched.reason).toBe("renewal-timed-out");
  },
);

it.each([
  ["INSERT", "INSERT INTO work SELECT 1"],
  ["read", "SELECT count() FROM work"],
])(
  "LK-12 with an %s of a stretch stalled and the lease's own statements answered, just the same",
  async (what, statement) => {
    const seen = await watch(`work ${what}`, (sent) => sent.startsWith(statement), 0, statement);
    judge(seen);
    expect(seen.watched.reason).toBe("deadline-passed");
    expect(seen.watched.failed).toBe("DEADLINE_EXCEEDED");
  },
);
