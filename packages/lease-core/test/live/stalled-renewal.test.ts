/**
 * Goal: a renewal, or a request under the lease, that stalls stops its holder while the row still lives. Method: a holder in a process of its own on a real server behind the
 * fault proxy; the rows are the oracle for what holder and rival said at each instant. How long a stalled renewal may take is LS-10's.
 */
import { startFaultProxy, type ProxiedRequest, type ProxyFault } from "@holdfast/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startEngine, type Engine } from "../support/engine.js";
import { judge, watch, type Seen } from "../support/watch.js";

// Above 0, so that a deadline without it shows: the holder has to be gone that much before the end of its row.
const clockSkewMs = 400;
let engine: Engine;

beforeAll(async () => {
  engine = await startEngine();
  await engine.run("CREATE TABLE work (n UInt8) ENGINE = MergeTree ORDER BY n");
});
afterAll(() => engine.stop());

type Statement = (text: string) => boolean;
const headRead: Statement = (text) => text.startsWith("SELECT toString(term)");
const claim: Statement = (text) => text.startsWith("INSERT") && text.includes("ttl_ns");
const readBack: Statement = (text) => text.startsWith("SELECT toString(lease_id)");

const statementOf = ({ bodyStart, url }: ProxiedRequest): string =>
  bodyStart === "" ? (new URL(url, "http://127.0.0.1").searchParams.get("query") ?? "") : bodyStart;

/** A holder whose statements of one kind meet a fault from when it holds: its claim, however often it is tried, meets none. */
async function faulted(name: string, which: Statement, fault: ProxyFault, statement?: string): Promise<Seen> {
  let held = false;
  await using proxy = await startFaultProxy({ target: engine.target });
  proxy.use({ match: (request) => held && which(statementOf(request)), fault });
  const seen = await watch(engine, { url: proxy.url, name, clockSkewMs, statement }, () => {
    held = true;
    return Promise.resolve(() => void (held = false));
  });
  expect(proxy.requests.filter(({ faults }) => faults.includes(fault.kind))).not.toEqual([]);
  return seen;
}

// Together: nearly all of their time is a row's that has to expire.
describe.concurrent("a holder", () => {
  const stalls = [
    ["claim INSERT", "stall", claim],
    ["answer to the claim INSERT", "stall-answer", claim],
    ["head read", "stall", headRead],
    ["read-back", "stall", readBack],
  ] as const;
  const stalledRenewal = async (what: string, kind: "stall" | "stall-answer", which: Statement) => {
    const seen = await faulted(`stalled ${what}`, which, { kind });
    judge(seen);
    expect(seen.watched.reason).toBe("renewal-timed-out");
  };
  it.each(stalls.slice(0, 2))(
    "LK-11 with the %s of its renewals stalled has given the lease up while its row lives, and is never shown as holding it after",
    stalledRenewal,
  );
  it.each(stalls.slice(2))(
    "LK-11 with the %s of its renewals stalled has given up likewise",
    { tags: ["slow"] },
    stalledRenewal,
  );

  const stalledWork = async (what: string, statement: string) => {
    const seen = await faulted(`work ${what}`, (text) => text.startsWith(statement), { kind: "stall" }, statement);
    judge(seen);
    expect(seen.watched.reason).toBe("deadline-passed");
    expect(seen.watched.failed).toBe("DEADLINE_EXCEEDED");
  };
  it("LK-12 with an INSERT of a stretch stalled and the lease's own statements answered, just the same", () =>
    stalledWork("INSERT", "INSERT INTO work SELECT 1"));
  it("LK-12 and with a read of a stretch stalled", { tags: ["slow"] }, () =>
    stalledWork("read", "SELECT count() FROM work"),
  );
});
