// Goal: starts against a catalog and a store that are slow, stall or fail. Method: a proxy before the server and a store that can
// be made to wait, one pair for each test; the lease row is read by a client of its own. Time that has to pass is skipped on the service's
// clock, except where a lease is to be renewed in real time.
import { until } from "@holdfast-private/tests-machine";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Barrier } from "../support/barrier.js";
import {
  freshSchema,
  leaseInsert,
  leaseRead,
  foreverMs,
  note,
  once,
  patientLease,
  type NotesSchema,
} from "../support/catalog.js";
import { endQuarantine, expireRows, loseLease, released, renew, sampler } from "../support/lease.js";
import { Rig, startInstalling } from "../support/rig.js";
import { SkippingClock } from "../support/skipping-clock.js";

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(async () => {
  await rig.close();
});

const { ttlMs } = patientLease;
/** Bound of one statement of a claim that is made without a lease. */
const claimBoundMs = ttlMs / 3;
/** A wait that ends before a quarantine after a first claim, and before the claim that follows it. */
const shortWait = { ...patientLease, startWaitMs: ttlMs };

/** Leaves a pack in the bucket that no catalog knows, as a service does that is killed between upload and index. */
async function crashWindowPack(schema: NotesSchema, ids: readonly string[]): Promise<void> {
  const store = rig.store(`store-${schema.name}`);
  const spool = { directory: rig.path(`window-${schema.name}`) };
  const service = rig.service(schema, { role: "capture-only", store, spool });
  await service.start();
  await service.appendBatch(ids.map((id) => note(id)));
  expect(await service.flush(foreverMs)).toBe(true);
  await service.stop();
}

/** What a start ends with: "started", or its error. */
const outcomeOf = (start: Promise<void>): Promise<unknown> =>
  start.then(() => "started").catch((error: unknown) => error);

describe.concurrent("a start", () => {
  it("CS-01 renews the lease while its first listing is slow, and indexes the pack that it finds", async () => {
    const schema = await rig.installed();
    await crashWindowPack(schema, ["found"]);
    const store = rig.store(`store-${schema.name}`);
    const service = rig.service(schema, { store, lease: await rig.smallLease(), reconcile: { intervalMs: 0 } });
    const listing = new Barrier();
    store.fault = (operation) => (operation === "list" ? listing : undefined);
    const started = service.start();
    await until("the listing has begun", () => listing.held > 0);
    await using row = sampler(rig, service, schema);
    await until("three renewals", () => service.status().lease!.renewals >= 3);
    expect(service.status().state).toBe("starting");
    await row.next();
    listing.open();
    await started;
    await until("the pack is indexed", () => service.status().reconciledPacks === 1);
    await row.stop();
    expect(row.lies()).toEqual([]);
    expect(row.seen("held", true)).not.toEqual([]);
    expect(await rig.visible(schema, store)).toEqual(once(["found"]));
    await service.stop();
  });

  it("CS-01 that lists for longer than the TTL stays under one lease, and makes one pass", async () => {
    const stage = await rig.stage();
    const { service, store } = stage;
    const listing = new Barrier();
    store.fault = (operation) => (operation === "list" ? listing : undefined);
    const started = service.start();
    await until("the listing has begun", () => listing.held > 0);
    const { leaseId } = service.status().lease!;
    await renew(stage, 6);
    expect(service.status()).toMatchObject({ state: "starting", lease: { state: "held", leaseId } });
    listing.open();
    await started;
    expect(service.status()).toMatchObject({ reconcilePasses: 1, reconciledPacks: 0, lease: { leaseId } });
    await service.stop();
  });

  it("CS-02 tries a claim again whose first read timed out, without a quarantine", async () => {
    const { service, proxy, clock } = await rig.stage();
    proxy.on(leaseRead, "stall", 1);
    const started = service.start();
    await until("the first read is under way", () => proxy.seen(leaseRead).length === 1);
    clock.skip(claimBoundMs);
    // A quarantine would take another TTL of its clock, which nobody skips.
    await started;
    expect(service.status().lease).toMatchObject({ state: "held" });
    expect(proxy.seen(leaseInsert)).toHaveLength(1);
    await service.stop();
  });

  it("CS-02 tries it again on a fresh catalog, too, where that claim is the install's", async () => {
    const schema = freshSchema();
    const clock = new SkippingClock();
    const proxy = await rig.proxy(clock);
    const store = rig.store(`store-${schema.name}`);
    const service = rig.service(schema, { store, clock, catalog: { ...rig.catalog, url: proxy.url } });
    proxy.on(leaseRead, "stall", 1);
    const started = startInstalling(service);
    await until("the first read is under way", () => proxy.seen(leaseRead).length === 1);
    clock.skip(claimBoundMs);
    const stalledAt = clock.now();
    await started;
    expect(service.status().lease).toMatchObject({ state: "held" });
    // A quarantine would have taken another TTL.
    expect(clock.now() - stalledAt).toBeLessThan(ttlMs);
    await service.stop();
  });

  it.each(["stall", "late"] as const)(
    "CS-03 whose first claim is lost (%s) waits out its own quarantine, once",
    async (action) => {
      const { schema, service, proxy, clock } = await rig.stage({ lease: shortWait });
      proxy.on(leaseInsert, action, 1);
      const startedAt = clock.now();
      const started = service.start();
      await until("the claim is under way", () => proxy.seen(leaseInsert).length === 1);
      clock.skip(claimBoundMs);
      await until("it waits", () => clock.sleepers > 0);
      if (action === "late") {
        await until("it has landed", () => proxy.seen(leaseInsert)[0]!.answeredAtMs !== null);
        await expireRows(rig, schema);
      }
      clock.skip(ttlMs);
      await started;
      expect(service.status().lease).toMatchObject({ state: "held" });
      const [, second] = proxy.seen(leaseInsert);
      expect(second!.atMs - startedAt).toBeGreaterThan(claimBoundMs + ttlMs);
      await service.stop();
    },
  );

  it("CS-04 whose every claim stalls fails after a second one, in W + 2 x T, and names the settings", async () => {
    const { service, proxy, clock } = await rig.stage({ lease: shortWait });
    proxy.on(leaseInsert, "stall");
    const startedAt = clock.now();
    const outcome = outcomeOf(service.start());
    await until("the first claim is under way", () => proxy.seen(leaseInsert).length === 1);
    clock.skip(claimBoundMs);
    await until("it waits", () => clock.sleepers > 0);
    clock.skip(ttlMs);
    await until("the second claim is under way", () => proxy.seen(leaseInsert).length === 2);
    clock.skip(claimBoundMs);
    expect(String(await outcome)).toMatch(/lease\.ttlMs/);
    expect(clock.now() - startedAt).toBeLessThan(shortWait.startWaitMs + 2 * ttlMs);
    expect(proxy.seen(leaseInsert)).toHaveLength(2);
    await service.stop();
  });

  it.each([
    [500, 159, "TIMEOUT_EXCEEDED"],
    [500, 473, "DEADLOCK_AVOIDED"],
    [500, 319, "UNKNOWN_STATUS_OF_INSERT"],
  ])("CS-05 whose first claim is answered %i with code %i (%s) treats it as a timeout", async (answer, code, name) => {
    const { service, proxy, clock } = await rig.stage({ lease: shortWait });
    proxy.on(leaseInsert, { answer, code, name }, 1);
    const startedAt = clock.now();
    const started = service.start();
    await until("it waits", () => clock.sleepers > 0);
    clock.skip(ttlMs);
    await started;
    expect(service.status().lease).toMatchObject({ state: "held" });
    const [, second] = proxy.seen(leaseInsert);
    expect(second!.atMs - startedAt).toBeGreaterThan(ttlMs);
    await service.stop();
  });

  it("CS-05 whose first claim is refused for another reason fails at once, after one claim", async () => {
    const { service, proxy, clock } = await rig.stage();
    proxy.on(leaseInsert, { answer: 403, code: 516, name: "AUTHENTICATION_FAILED" });
    // At once: nothing that it could wait for comes, since nobody skips any time.
    expect(await outcomeOf(service.start())).toMatchObject({ serverCode: 516 });
    expect(proxy.seen(leaseInsert)).toHaveLength(1);
    expect(clock.pending).toBe(0);
  });

  it("CS-08 that fails after the lease is taken ends its keeper, gives the lease back and leaves nothing running", async () => {
    const directory = "/proc/holdfast-no-such-directory";
    const { schema, service, proxy, clock } = await rig.stage({ spool: { directory } });
    expect(await outcomeOf(service.start())).toMatchObject({ code: "SPOOL_UNWRITABLE" });
    expect(await released(rig, schema)).toBe(true);
    // No timer and no statement under way: nothing can act any more.
    expect(clock.pending).toBe(0);
    expect(proxy.log.filter(({ answeredAtMs }) => answeredAtMs === null)).toEqual([]);
    expect(proxy.seen(leaseInsert)).toHaveLength(2);
  });

  it("CS-09 that loses its lease during the listing succeeds quarantined; the loop claims afresh and repeats the pass", async () => {
    const stage = await rig.stage();
    const { schema, service, store } = stage;
    await crashWindowPack(schema, ["found"]);
    const listing = new Barrier();
    store.fault = (operation) => (operation === "list" ? listing : undefined);
    const started = service.start();
    await until("the listing has begun", () => listing.held > 0);
    const { leaseId } = service.status().lease!;
    await loseLease(stage);
    listing.open();
    await started;
    expect(service.status()).toMatchObject({ reconcileOwed: true, lease: { state: "quarantined" } });
    await endQuarantine(rig, stage);
    await until("the pack is indexed", () => service.status().reconciledPacks === 1);
    expect(service.status().lease).toMatchObject({ state: "held", reacquisitions: 1 });
    expect(service.status().lease!.leaseId).not.toBe(leaseId);
    expect(await rig.visible(schema, store)).toEqual(once(["found"]));
    await service.stop();
  });

  it("CS-11 whose reconcile fails is a start all the same; the loop owes and repeats it", async () => {
    const { schema, service, store } = await rig.stage();
    await crashWindowPack(schema, ["found"]);
    store.fault = (operation) => (operation === "list" ? "down" : undefined);
    await service.start();
    expect(service.status()).toMatchObject({
      state: "running",
      reconcileOwed: true,
      lastError: expect.stringMatching(/reconcile failed.*made to be down/) as string,
    });
    store.fault = () => undefined;
    await until("the pack is indexed", () => service.status().reconciledPacks === 1);
    expect(service.status().reconcileOwed).toBe(false);
    await service.stop();
  });

  it("a stop during a start that is still listing ends both, and the lease is free", async () => {
    const { schema, service, store } = await rig.stage();
    store.fault = (operation) => (operation === "list" ? "stall" : undefined);
    const outcome = outcomeOf(service.start());
    await until("the listing stalls", () => store.count("list") > 0);
    await Promise.all([service.stop(), service.stop()]);
    expect(await outcome).toMatchObject({ code: "STOPPED" });
    expect(await released(rig, schema)).toBe(true);
  });
});
