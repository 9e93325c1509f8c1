// Goal: what a running service does beside a rival, a standby, another service of its process, or alone. Method: a proxy before the server and a
// store that can be made to wait, one pair for each service. Time that has to pass is skipped on the service's clock.
import { until } from "@holdfast-private/tests-machine";
import { acquireLease, type LeaseKeeper } from "@holdfast/lease-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Barrier } from "../support/barrier.js";
import { leaseRead, foreverMs, note, numbered, once, patientLease } from "../support/catalog.js";
import { endQuarantine, expireRows, loseLease, renew, stateOf } from "../support/lease.js";
import { appendAll, moreCycles, noLoop, onePack, startPublisher, type Stage } from "../support/publisher.js";
import { Rig, type Changed } from "../support/rig.js";

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(async () => {
  await rig.close();
});

const publisher = (changed: Changed = {}) => startPublisher(rig, changed);
const { ttlMs } = patientLease;

/** Takes the lease from a service: it is not renewed any more, its row ends, and a rival claims. `since`: the service has no quarantine any more. */
async function pushAside(stage: Stage): Promise<{ rival: LeaseKeeper; since: number }> {
  await loseLease(stage);
  await expireRows(rig, stage.schema);
  const { database, requestTimeoutMs } = rig.catalog;
  const o = { client: rig.client(), name: stage.schema.name, lease: patientLease, database, requestTimeoutMs };
  const rival = await acquireLease({ ...o, waitMs: 0 });
  stage.clock.skip(ttlMs);
  const since = stage.clock.now();
  const lease = () => stage.service.status().lease!;
  await until("refused by the rival", () => lease().state === "reacquiring" && lease().heldBy === rival.holder);
  return { rival, since };
}

/**
 * Skips time, a little after another and none while a statement is under way, until a condition is met. For a service that has no lease to
 * lose by it.
 */
async function skipUntil(what: string, { clock, proxy }: Stage, condition: () => boolean): Promise<void> {
  await until(what, () => {
    if (condition()) return true;
    if (proxy.underWay === 0) clock.skip(ttlMs / 12);
    return false;
  });
}

/** When the service looked whether the lease is free. */
const looks = ({ proxy }: Stage): readonly number[] => proxy.seen(leaseRead).map(({ atMs }) => atMs);

describe.concurrent("beside others", () => {
  it("CS-15 checks the lease before every chunk: lost between two, no upload follows", async () => {
    const stage = await publisher({ spool: onePack, upload: { timeoutMs: foreverMs, concurrency: 1 }, ...noLoop });
    const { service, store } = stage;
    await appendAll(service, numbered(12));
    const uploading = new Barrier();
    store.fault = (operation) => (operation === "put" && store.count("put") === 2 ? uploading : undefined);
    const flushed = service.flush(foreverMs);
    await until("the second of a chunk of four is under way", () => uploading.held === 1);
    await loseLease(stage);
    uploading.open();
    await moreCycles(stage);
    // A chunk that was begun under the lease is finished; none is begun after it.
    expect(store.count("put")).toBe(4);
    await endQuarantine(rig, stage);
    expect(await flushed).toBe(true);
    expect(service.status()).toMatchObject({ uploadedPacks: 12, indexedRecords: 12 });
    await service.stop();
  });

  it("CS-22 a standby uploads while another publishes, is never latched, takes over, and goes back to waiting when it loses", async () => {
    const schema = await rig.installed();
    const store = rig.store(`store-${schema.name}`);
    const first = rig.service(schema, {
      store,
      reconcile: { intervalMs: 0 },
      spool: { directory: rig.path(`first-${schema.name}`) },
    });
    await first.start();
    const stage = await rig.stage({ role: "standby", schema, reconcile: {} });
    const standby = stage.service;
    await standby.start();
    await standby.append(note("while-waiting"));
    expect(await standby.flush(foreverMs)).toBe(true);
    const states = new Set<string>();
    const waitsFrom = stage.clock.now();
    const looksBefore = looks(stage).length;
    await skipUntil("refused for 4 x T", stage, () => {
      states.add(stateOf(standby));
      return looks(stage).length >= looksBefore + 5 && stage.clock.now() - waitsFrom >= 4 * ttlMs;
    });
    expect(states).toEqual(new Set(["reacquiring"]));
    expect(standby.status()).toMatchObject({ uploadedPacks: 1, indexedPacks: 0 });
    await first.stop();
    await skipUntil("the standby holds", stage, () => stateOf(standby) === "held");
    await until("it has indexed what it uploaded", () => standby.status().reconciledPacks === 1);
    expect(await rig.visible(schema, store)).toEqual(once(["while-waiting"]));
    const { rival } = await pushAside(stage);
    await standby.append(note("after-losing"));
    expect(await standby.flush(foreverMs)).toBe(true);
    expect(standby.status()).toMatchObject({ uploadedPacks: 2, lease: { state: "reacquiring" } });
    await rival.stop();
    await skipUntil("the standby holds again", stage, () => stateOf(standby) === "held");
    await until("it shows that too", async () => (await rig.visible(schema, store)).size === 2);
    await standby.stop();
  });

  it("CS-10 a publisher that loses to another holder retakes when it leaves, and gives up after 2 x T when it stays", async () => {
    const stage = await publisher();
    const { schema, service, store, clock } = stage;
    const first = await pushAside(stage);
    await appendAll(service, ["kept"]);
    await first.rival.stop();
    await skipUntil("retaken", stage, () => stateOf(service) === "held");
    await until("retaken and indexed", () => service.status().indexedRecords === 1);
    const second = await pushAside(stage);
    const refusedAt = clock.now();
    await skipUntil("given up", stage, () => stateOf(service) !== "reacquiring");
    expect(stateOf(service)).toBe("failed");
    expect(clock.now() - second.since).toBeGreaterThanOrEqual(2 * ttlMs);
    // At the first refusal from then on.
    expect(looks(stage).filter((at) => at >= refusedAt + 2 * ttlMs).length).toBeLessThanOrEqual(1);
    await appendAll(service, ["safe"]);
    await expect(service.flush(foreverMs)).rejects.toMatchObject({ code: "LEASE_LATCHED" });
    await second.rival.stop();
    await service.stop();
    // Nothing is lost by it: the next start shows what was in the spool.
    const next = rig.service(schema, { store });
    await next.start();
    expect(await next.flush(foreverMs)).toBe(true);
    expect(await rig.visible(schema, store)).toEqual(once(["kept", "safe"]));
    await next.stop();
  });

  it("CS-25 a service with a stalled catalog delays no other one in the process", async () => {
    const [stalled, well] = [await publisher(), await publisher()];
    stalled.proxy.on(/./, "stall");
    const { leaseId } = well.service.status().lease!;
    for (let third = 0; third < 4; third += 1) {
      stalled.clock.skip(ttlMs / 3);
      await renew(well);
    }
    expect(well.service.status().lease).toMatchObject({ state: "held", leaseId, renewals: 4 });
    expect(stateOf(stalled.service)).toBe("quarantined");
    for (const { service } of [stalled, well]) expect(service.status().lastError ?? "").not.toContain("NESTED_LEASE");
    stalled.proxy.clear();
    await Promise.all([stalled.service.stop(), well.service.stop()]);
  });

  it("CS-26 an idle service gives the lease back and writes nothing more, until there is new data", async () => {
    const reconcile = { fullIntervalMs: foreverMs };
    const releaseWhenIdleMs = ttlMs / 2;
    const stage = await publisher({ releaseWhenIdleMs, reconcile });
    const { schema, service, proxy, store, clock } = stage;
    // One that has work now and then is not idle, however quickly it has done it.
    const ids = numbered(4);
    let workedAt = clock.now();
    for (const id of ids) {
      await renew(stage);
      workedAt = clock.now();
      await appendAll(service, [id]);
      await until("indexed", () => service.status().indexedRecords === ids.indexOf(id) + 1);
    }
    await until("given back", async () => {
      if (stateOf(service) === "held") await moreCycles(stage, 1);
      return stateOf(service) === "released";
    });
    expect(clock.now() - workedAt).toBeGreaterThanOrEqual(releaseWhenIdleMs);
    // It says so from when the tombstone leaves: that one has to be through before writes are counted.
    const tombstone = /stamped_ns, stamped_ns FROM/;
    await until("its tombstone landed", () => proxy.seen(tombstone).some(({ answeredAtMs }) => answeredAtMs !== null));
    const writes = proxy.seen(/^\s*INSERT/).length;
    for (let i = 0; i < 10; i += 1) {
      clock.skip(ttlMs);
      await moreCycles(stage, 1);
    }
    expect(proxy.seen(/^\s*INSERT/)).toHaveLength(writes);
    expect(proxy.seen(tombstone)).toHaveLength(1);
    const from = clock.now();
    await appendAll(service, ["new"]);
    await until("held and indexed", () => service.status().indexedRecords === 5);
    // The test skips no time here, so a claim that waited for a TTL, or a longer pause of the loop, would show.
    expect(clock.now() - from).toBeLessThan(ttlMs / 3);
    expect(await rig.visible(schema, store)).toEqual(once([...ids, "new"]));
    await service.stop();
  });
});
