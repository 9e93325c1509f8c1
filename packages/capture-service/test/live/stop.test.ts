// Goal: stops against a catalog and a store that are slow or stall. Method: a proxy before the server and a store that can be made to wait, one
// pair for each test; the lease row is read by a client of its own. Time that has to pass is skipped on the service's clock.
import { until } from "@holdfast-private/tests-machine";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Barrier } from "../support/barrier.js";
import { leaseInsert, foreverMs, manifestInsert, note, once, patientLease } from "../support/catalog.js";
import { loseLease, released, renew, sampler } from "../support/lease.js";
import { Rig } from "../support/rig.js";

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(async () => {
  await rig.close();
});

const { ttlMs } = patientLease;

/** A stop that waits for nothing, beside what the machine is late. */
const promptMs = 2_000;

describe.concurrent("a stop", () => {
  it("CS-12 ends the loop first and the keeper after it: the last cycle's pack is indexed under a lease that is renewed", async () => {
    const stage = await rig.stage();
    const { schema, service, proxy, store } = stage;
    await service.start();
    const [reading, publishing] = [new Barrier(), new Barrier()];
    store.fault = (operation) => (operation === "get" ? reading : undefined);
    proxy.on(manifestInsert, publishing, 1);
    await using row = sampler(rig, service, schema);
    await (await service.append(note("last"))).durable();
    await until("the read has begun", () => reading.held > 0);
    // The read takes longer than a lease lives.
    await renew(stage, 4);
    reading.open();
    await until("the publish is under way", () => publishing.held > 0);
    const { renewals } = service.status().lease!;
    const stopped = service.stop();
    stage.clock.skip(ttlMs / 3);
    publishing.open();
    await stopped;
    // The status says "released" as the tombstone leaves, so only a sample begun after the stop has to show the row gone.
    expect(await row.next()).toEqual({ state: "released", rowLive: false });
    await row.stop();
    expect(row.lies()).toEqual([]);
    expect(row.seen("held", true)).not.toEqual([]);
    // The keeper was there until the end of the publish.
    expect(service.status().lease!.renewals).toBe(renewals + 1);
    const inventory = proxy.seen(/INSERT INTO \S*_pack_inventory/);
    expect(inventory).toHaveLength(1);
    expect(proxy.seen(leaseInsert).at(-1)!.atMs).toBeGreaterThan(inventory[0]!.answeredAtMs!);
    expect(await rig.visible(schema, store)).toEqual(once(["last"]));
  });

  it("CS-13 with stalled uploads is prompt; what was cut is no failure and stays in the spool", async () => {
    const { schema, service, store } = await rig.stage();
    await service.start();
    store.fault = (operation) => (operation === "put" ? "stall" : undefined);
    await (await service.append(note("waits"))).durable();
    await until("the upload stalls", () => store.count("put") > 0);
    let ticked = false;
    setTimeout(() => (ticked = true), 0);
    const from = performance.now();
    await Promise.all([service.stop(), service.stop(), service[Symbol.asyncDispose]()]);
    expect(performance.now() - from).toBeLessThan(promptMs + (await rig.lateness.sinceMs(from)));
    expect(ticked).toBe(true);
    expect(service.status()).toMatchObject({ uploadFailures: 0, cancelledUploads: 1, spool: { packs: 1 } });
    expect(await released(rig, schema)).toBe(true);
    store.fault = () => undefined;
    const next = rig.service(schema, { store });
    await next.start();
    expect(await next.flush(foreverMs)).toBe(true);
    expect(await rig.visible(schema, store)).toEqual(once(["waits"]));
    await next.stop();
  });

  it("CS-13 with a stalled read of the index pass is prompt, and the pack stays owed to the bucket", async () => {
    const { schema, service, store } = await rig.stage();
    await service.start();
    store.fault = (operation) => (operation === "get" ? "stall" : undefined);
    await (await service.append(note("owed"))).durable();
    await until("the read stalls", () => store.count("get") > 0);
    const from = performance.now();
    await service.stop();
    expect(performance.now() - from).toBeLessThan(promptMs + (await rig.lateness.sinceMs(from)));
    expect(service.status()).toMatchObject({ indexFailures: 0, pendingIndex: 1 });
    expect(await released(rig, schema)).toBe(true);
  });

  it("CS-14 lets a publish that is under way finish before it releases", async () => {
    const { schema, service, proxy, store } = await rig.stage();
    await service.start();
    const publishing = new Barrier();
    proxy.on(manifestInsert, publishing, 1);
    await (await service.append(note("shown"))).durable();
    await until("the publish is under way", () => publishing.held > 0);
    const claims = proxy.seen(leaseInsert).length;
    const stopped = service.stop();
    publishing.open();
    await stopped;
    const [statement] = proxy.seen(manifestInsert);
    expect(statement!.status).toBe(200);
    const writes = proxy.seen(leaseInsert);
    expect(writes).toHaveLength(claims + 1);
    expect(writes.at(-1)!.atMs).toBeGreaterThan(statement!.answeredAtMs!);
    expect(await released(rig, schema)).toBe(true);
    expect(await rig.visible(schema, store)).toEqual(once(["shown"]));
    const next = rig.service(schema, { store, lease: { ...patientLease, startWaitMs: 0 } });
    await next.start();
    await next.stop();
  });

  it("CS-14 inside a quarantine writes no tombstone and does not call itself released", async () => {
    const stage = await rig.stage();
    const { service, proxy } = stage;
    await service.start();
    await loseLease(stage);
    const inserts = proxy.seen(leaseInsert).length;
    await service.stop();
    expect(proxy.seen(leaseInsert)).toHaveLength(inserts);
    expect(service.status().lease?.state).toMatch(/^(quarantined|none)$/);
  });
});
