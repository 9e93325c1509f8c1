// Goal: a running service against a catalog and a store that fail, stall or are slow. Method: a proxy before the server and a store that can be
// made to fail or to wait, one pair for each test; loops that could blur a count are slowed down. Time that has to pass is skipped on the
// service's clock.
import { until } from "@holdfast-private/tests-machine";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { nodeFiles } from "../../src/spool/files.js";
import { Barrier } from "../support/barrier.js";
import { leaseInsert, foreverMs, note, numbered, once, patientLease, versionClaim } from "../support/catalog.js";
import { endQuarantine, expireRows, loseLease, renew, stateOf } from "../support/lease.js";
import type { Proxy } from "../support/proxy.js";
import { appendAll, moreCycles, noLoop, onePack, startPublisher } from "../support/publisher.js";
import { Rig, type Changed } from "../support/rig.js";
import type { SwitchStore } from "../support/switch-store.js";

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(async () => {
  await rig.close();
});

const publisher = (changed: Changed = {}, files = nodeFiles()) => startPublisher(rig, changed, files);
const { ttlMs } = patientLease;
/** On a clock that a test skips. Far under a third of the TTL, so that it comes to no renewal. */
const flushMs = 60_000;

async function objects(store: SwitchStore): Promise<number> {
  const keys = new Set<string>();
  for await (const { key } of store.list({ prefix: "v1/", signal: new AbortController().signal })) keys.add(key);
  return keys.size;
}

describe.concurrent("what a publisher owes", () => {
  it("CS-16 uploads nothing new while a pack is owed, and nothing without the lease", async () => {
    const stage = await publisher({ spool: onePack });
    const { schema, service, proxy, store } = stage;
    proxy.on(versionClaim, "fail");
    await service.append(note("r-0"));
    await until("one pack is owed", () => service.status().pendingIndex === 1);
    await appendAll(service, ["r-1", "r-2", "r-3", "r-4", "r-5"]);
    await moreCycles(stage);
    expect(await objects(store)).toBe(1);
    expect(service.status().spool).toMatchObject({ packs: 5 });
    proxy.clear();
    await moreCycles(stage, 1);
    await until("all are indexed", () => service.status().indexedRecords === 6);
    expect(await rig.visible(schema, store)).toEqual(once(numbered(6)));
    await loseLease(stage);
    const puts = store.count("put");
    await appendAll(service, ["later"]);
    await moreCycles(stage);
    expect(stateOf(service)).toBe("quarantined");
    expect(store.count("put")).toBe(puts);
    await endQuarantine(rig, stage);
    await until("held again, and indexed", () => service.status().indexedRecords === 7);
    await service.stop();
  });

  it("CS-17 names a pack whose indexing failed, keeps it owed, and needs no second upload", async () => {
    const { schema, service, proxy, store, clock } = await publisher(noLoop);
    proxy.on(versionClaim, "fail");
    await service.append(note("owed"));
    const flushed = service.flush(flushMs);
    await until("its indexing has failed twice", () => service.status().indexFailures >= 2);
    clock.skip(flushMs);
    expect(await flushed).toBe(false);
    expect(service.status()).toMatchObject({
      pendingIndex: 1,
      lastError: expect.stringMatching(/1 packs are owed.*made to fail/) as string,
    });
    proxy.clear();
    expect(await service.flush(foreverMs)).toBe(true);
    expect(store.count("put")).toBe(1);
    expect(await rig.visible(schema, store)).toEqual(once(["owed"]));
    await service.stop();
  });

  it("sets aside a pack that breaks a rule after its tries, names it once, and goes on with the others", async () => {
    const { service, store } = await publisher({ spool: onePack, index: { packAttempts: 3 }, ...noLoop });
    let bad = "";
    store.fault = (operation, key) => {
      if (operation !== "get") return undefined;
      bad ||= key;
      return key === bad ? "corrupt" : undefined;
    };
    await appendAll(service, numbered(5));
    await expect(service.flush(foreverMs)).rejects.toMatchObject({
      code: "PACKS_SET_ASIDE",
      message: expect.stringMatching(/PACK_CORRUPT|PACK_TRUNCATED/) as string,
    });
    expect(await service.flush(foreverMs)).toBe(true);
    expect(service.status()).toMatchObject({ indexedRecords: 4, pendingIndex: 0, setAside: [{ key: bad }] });
    await service.stop();
  });
});

/** Makes something wait, and reports how many wait. */
type Stall = (parts: { proxy: Proxy; store: SwitchStore; barrier: Barrier }) => () => number;
const catalogInsert = /^\s*INSERT INTO (?!\S*publisher_lease)/;
const stalls: readonly (readonly [string, Stall])[] = [
  ["a catalog that stalls", ({ proxy }) => (proxy.on(catalogInsert, "stall"), () => proxy.stalled)],
  [
    "stalled uploads",
    ({ store, barrier }) => (
      (store.fault = (operation) => (operation === "put" ? barrier : undefined)),
      () => barrier.held
    ),
  ],
];
const otherStalls: typeof stalls = [
  ["a black hole", ({ proxy }) => (proxy.on(/./, "stall"), () => proxy.stalled)],
  ["a slow catalog", ({ proxy, barrier }) => (proxy.on(catalogInsert, barrier), () => barrier.held)],
  [
    "stalled index reads",
    ({ store, barrier }) => (
      (store.fault = (operation) => (operation === "get" ? barrier : undefined)),
      () => barrier.held
    ),
  ],
];

describe.concurrent("flush", () => {
  const title = "CS-19 returns on time under %s, and the service runs on";
  it.each(stalls)(title, (_, stall) => returnsOnTime(stall));
  it.each(otherStalls)(title, { tags: ["slow"] }, (_, stall) => returnsOnTime(stall));

  async function returnsOnTime(stall: Stall): Promise<void> {
    const stage = await publisher({ spool: onePack });
    const { schema, service, proxy, store, clock } = stage;
    const barrier = new Barrier();
    const waiting = stall({ proxy, store, barrier });
    await appendAll(service, numbered(5));
    const flushed = service.flush(flushMs);
    await until("something waits", () => waiting() > 0);
    // What waits has no bound that anybody comes to: only the flush's own is skipped.
    let result: boolean | null = null;
    void flushed.then((drained) => (result = drained));
    clock.skip(flushMs);
    await until("the flush returns", () => result !== null);
    expect(result).toBe(false);
    expect(waiting()).toBeGreaterThan(0);
    expect(service.status().state).toBe("running");
    expect(await rig.visible(schema, store)).toEqual(new Map());
    proxy.clear();
    store.fault = () => undefined;
    barrier.open();
    await moreCycles(stage, 1);
    await until("all are indexed", () => service.status().indexedRecords === 5);
    await service.stop();
  }

  it("CS-20 of 0 is one cycle: one owed batch indexed, nothing uploaded, nothing read from the spool; empty, it is drained", async () => {
    const files = nodeFiles();
    let bytesRead = 0;
    const spying = {
      ...files,
      open: async (...args: Parameters<typeof files.open>) => {
        const file = await files.open(...args);
        const read: typeof file.read = async (...range) => {
          const count = await file.read(...range);
          bytesRead += count;
          return count;
        };
        return { ...file, read };
      },
    };
    const changed = { spool: onePack, index: { packsPerPass: 1 }, ...noLoop };
    const { service, proxy, store, clock } = await publisher(changed, spying);
    expect(await service.flush(0)).toBe(true);
    await appendAll(service, ["owed-0", "owed-1", "owed-2"]);
    proxy.on(versionClaim, "fail");
    const flushed = service.flush(flushMs);
    await until("three are owed", () => service.status().pendingIndex === 3);
    clock.skip(flushMs);
    expect(await flushed).toBe(false);
    await Promise.all(
      Array.from({ length: 100 }, async (_, i) => (await service.append(note(`staged-${i}`))).durable()),
    );
    await until("a hundred are staged", () => service.status().spool?.packs === 100);
    // It waits for the cycle that the flush left behind, so that none runs when it has returned.
    expect(await service.flush(0)).toBe(false);
    expect(service.status().pendingIndex).toBe(3);
    proxy.clear();
    const before = { puts: store.count("put"), cycles: service.status().cycles };
    bytesRead = 0;
    expect(await service.flush(0)).toBe(false);
    expect(service.status()).toMatchObject({ pendingIndex: 2, indexedPacks: 1, cycles: before.cycles + 1 });
    for (const left of [1, 0]) {
      expect(await service.flush(0)).toBe(false);
      expect(service.status().pendingIndex).toBe(left);
    }
    // Not even with nothing owed any more.
    expect(await service.flush(0)).toBe(false);
    expect(store.count("put")).toBe(before.puts);
    expect(bytesRead).toBe(0);
    await service.stop();
  });

  it("CS-21 never reconciles, and after it a stop runs no further cycle", async () => {
    const { service } = await publisher({ ...noLoop, reconcile: { intervalMs: 1 } });
    await until("the loop has reconciled as well", () => service.status().reconcilePasses === 2);
    await service.append(note("a"));
    const { reconcilePasses } = service.status();
    expect(await service.flush(foreverMs)).toBe(true);
    const after = service.status();
    expect(after.reconcilePasses).toBe(reconcilePasses);
    await service.stop();
    expect(service.status()).toMatchObject({ cycles: after.cycles, reconcilePasses });
  });
});

describe.concurrent("an outage", () => {
  it("CS-18 is asked about at doubling intervals, the lease held and renewed, no pack set aside, all indexed after", async () => {
    const publishIntervalMs = 500;
    const stage = await publisher({ publishIntervalMs, spool: onePack });
    const { schema, service, store, clock } = stage;
    const { leaseId } = service.status().lease!;
    /** When the store was asked, by cycle. */
    const asked = new Map<number, number>();
    store.fault = () => {
      asked.set(service.status().cycles, asked.get(service.status().cycles) ?? clock.now());
      return "down";
    };
    const ids = numbered(10);
    await appendAll(service, ids);
    while (asked.size < 5) {
      await until("the loop waits", () => clock.sleepers > 0);
      clock.skip(publishIntervalMs);
    }
    const at = [...asked.values()];
    const pauses = at.slice(1).map((each, i) => each - at[i]!);
    // After the first failure 1 s, then 2, 4, 8.
    pauses.forEach((pause, i) => expect(pause).toBeGreaterThanOrEqual(publishIntervalMs * 2 ** (i + 1)));
    await renew(stage, 4);
    expect(service.status()).toMatchObject({
      setAside: [],
      lastError: expect.stringContaining("made to be down") as string,
      lease: { state: "held", leaseId },
    });
    store.fault = () => undefined;
    await moreCycles(stage, 1);
    await until("all is indexed after the outage", () => service.status().indexedRecords === 10);
    expect(await rig.visible(schema, store)).toEqual(once(ids));
    await service.stop();
  });
});

describe.concurrent("the status", () => {
  it("CS-24 is plain JSON and shows lease, quarantine, timeouts and what is owed", async () => {
    const stage = await publisher();
    const { service, proxy, clock } = stage;
    proxy.on(leaseInsert, "stall");
    await loseLease(stage);
    const status = service.status();
    expect(JSON.parse(JSON.stringify(status))).toEqual(status);
    expect(status.lease!.quarantinedUntilMs).toBeGreaterThan(clock.now());
    expect(status.lease!.quarantinedUntilMs).toBeLessThanOrEqual(clock.now() + ttlMs);
    expect(status.lease).toMatchObject({
      renewals: 0,
      reacquisitions: 0,
      leaseTimeouts: 1,
      leaseTimeoutError: null,
    });
    await expireRows(rig, stage.schema);
    for (const timeouts of [2, 3]) {
      const claims = proxy.seen(leaseInsert).length;
      clock.skip(ttlMs);
      await until("a claim stalls", () => proxy.seen(leaseInsert).length > claims);
      clock.skip(ttlMs / 3);
      await until("it has timed out", () => service.status().lease?.leaseTimeouts === timeouts);
    }
    expect(service.status().lease?.leaseTimeoutError).not.toBeNull();
    expect(service.status().lastError).toMatch(/lease\.ttlMs 600000.*catalog\.requestTimeoutMs/);
    proxy.clear();
    clock.skip(ttlMs);
    await until("held again", () => stateOf(service) === "held");
    expect(service.status().lease!.reacquisitions).toBe(1);
    await service.stop();
  });
});
