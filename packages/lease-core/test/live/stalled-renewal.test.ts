/**
 * Goal: a renewal, or a request under the lease, that stalls stops its holder while the row still lives. Method: a holder in a process of its own on the real engine behind the
 * fault proxy; another process samples the rows, which are the oracle that the looks of holder and rival at their status are judged by.
 */
import { startFaultProxy, type FaultProxy, type ProxiedRequest, type ProxyFault } from "@holdfast/testkit";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { startEngine, type Engine } from "../support/engine.js";
import { judge, watch, type Seen } from "../support/watch.js";

let engine: Engine;
let proxy: FaultProxy;

beforeAll(async () => {
  engine = await startEngine();
  await engine.run("CREATE TABLE work (n UInt8) ENGINE = MergeTree ORDER BY n");
  proxy = await startFaultProxy({ target: { port: Number(new URL(engine.server.url).port) } });
});
afterEach(() => proxy.clear());
afterAll(async () => {
  await proxy[Symbol.asyncDispose]();
  await engine.stop();
});

type Statement = (text: string) => boolean;
const headRead: Statement = (text) => text.startsWith("SELECT toString(term)");
const claim: Statement = (text) => text.startsWith("INSERT") && text.includes("ttl_ns");
const readBack: Statement = (text) => text.startsWith("SELECT toString(lease_id)");

const statementOf = ({ bodyStart, url }: ProxiedRequest): string =>
  bodyStart === "" ? (new URL(url, "http://127.0.0.1").searchParams.get("query") ?? "") : bodyStart;

/** A holder whose statements of one kind meet a fault from when it holds on. */
async function faulted(name: string, which: Statement, fault: ProxyFault, statement?: string): Promise<Seen> {
  const seen = await watch(engine, { url: proxy.url, name, clockSkewMs: 0, statement }, () => {
    proxy.use({ match: (request) => which(statementOf(request)), fault });
    return Promise.resolve(undefined);
  });
  expect(proxy.requests.filter(({ faults }) => faults.includes(fault.kind))).not.toEqual([]);
  return seen;
}

/** Given up while the row by which it held lived, by its own word on when. */
function judgeEnd(seen: Seen, unconfirmed = 0): void {
  const { acquired, expires } = judge(seen, { unconfirmed });
  const { quarantineBegan, loopDelayMs } = seen.watched;
  const after = (quarantineBegan ?? 0) - acquired;
  expect(after).toBeGreaterThanOrEqual(2000);
  // When it noticed: what kept its loop from running is not the keeper's, and made nobody be told "held" meanwhile.
  expect(after).toBeLessThanOrEqual(2950 + loopDelayMs);
  expect(quarantineBegan! - loopDelayMs).toBeLessThan(expires);
}

it.each([
  // With the read-back stalled, or the answer to the INSERT, the newest row of ours is one that was never confirmed.
  ["head read", "stall", headRead, 0],
  ["claim INSERT", "stall", claim, 0],
  ["read-back", "stall", readBack, 1],
  ["answer to the claim INSERT", "stall-answer", claim, 1],
] as const)(
  "LK-11 with the %s of a renewal stalled, the lease is given up while its row lives, and never shown held after",
  async (what, kind, which, unconfirmed) => {
    const seen = await faulted(`stalled ${what}`, which, { kind });
    judgeEnd(seen, unconfirmed);
    expect(seen.watched.reason).toBe("renewal-timed-out");
  },
);

it.each([
  ["INSERT", "INSERT INTO work SELECT 1"],
  ["read", "SELECT count() FROM work"],
])(
  "LK-12 with an %s of a stretch stalled and the lease's own statements answered, just the same",
  async (what, statement) => {
    const seen = await faulted(`work ${what}`, (text) => text.startsWith(statement), { kind: "stall" }, statement);
    judgeEnd(seen);
    expect(seen.watched.reason).toBe("deadline-passed");
    expect(seen.watched.failed).toBe("DEADLINE_EXCEEDED");
  },
);
