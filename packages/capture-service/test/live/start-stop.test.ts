// Goal: starts and stops against a catalog and a store that are slow, stall or fail. Method: a proxy before the engine and a
// store that can be made to stall, one pair for each test; the lease row is read by a client of its own.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { CaptureService } from "../../src/index.js";
import {
  freshSchema,
  install,
  leaseInsert,
  leaseRead,
  note,
  Rig,
  sleep,
  smallLease,
  until,
  type NotesSchema,
} from "../support/catalog.js";
import type { Proxy } from "../support/proxy.js";

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(async () => {
  await rig.close();
});

const now = () => performance.now();

/** Leaves a pack in the bucket that no catalog knows, as a service does that is killed between upload and index. */
async function crashWindowPack(schema: NotesSchema, ids: readonly string[]): Promise<void> {
  const store = rig.store(`store-${schema.name}`);
  const service = rig.service(schema, {
    role: "capture-only",
    store,
    spool: { directory: rig.path(`window-${schema.name}`) },
  });
  await service.start();
  await service.appendBatch(ids.map((id) => note(id)));
  await service.flush(10_000);
  await service.stop();
}

type Sample = { readonly state: string; readonly rowLive: boolean };

/** Samples what the service says of its lease beside what the row says, until it is stopped. */
function sampler(service: CaptureService<NotesSchema>, schema: NotesSchema): { stop(): Promise<Sample[]> } {
  const samples: Sample[] = [];
  let on = true;
  const client = rig.client();
  const work = (async () => {
    while (on) {
      // The state first and again after: only a state that held over the whole read is compared.
      const before = service.status().lease?.state ?? "none";
      const result = await client.query({ query: liveRow(schema), format: "JSONEachRow" });
      const [row] = await result.json<{ live: boolean | number }>();
      if ((service.status().lease?.state ?? "none") === before)
        samples.push({ state: before, rowLive: Boolean(row?.live) });
      await sleep(10);
    }
    await client.close();
  })();
  return {
    stop: async () => {
      on = false;
      await work;
      return samples;
    },
  };
}

const liedAbout = (samples: readonly Sample[]): number =>
  samples.filter(({ state, rowLive }) => state === "held" && !rowLive).length;

/** Whether the row of the newest term keeps others out, as the lease protocol reads it. */
const liveRow = (schema: NotesSchema): string =>
  `SELECT count() > 0 AS live FROM (SELECT min(expires_at_ns) AS until FROM holdfast_publisher_lease WHERE name = '${schema.name}' ` +
  `AND term = (SELECT max(term) FROM holdfast_publisher_lease WHERE name = '${schema.name}') GROUP BY lease_id) ` +
  `WHERE until > toUnixTimestamp64Nano(now64(9))`;

async function released(schema: NotesSchema): Promise<boolean> {
  const rows = await rig.rows<{ live: boolean | number }>(liveRow(schema));
  return !rows[0]?.live;
}

function publisher(schema: NotesSchema, proxy: Proxy, o: object = {}) {
  const store = rig.store(`store-${schema.name}`);
  const service = rig.service(schema, {
    store,
    catalog: { ...rig.catalog, url: proxy.url },
    reconcile: { intervalMs: 0 },
    ...o,
  });
  return { service, store };
}

// These mostly wait, each for a server of its own making.
describe.concurrent("a start", () => {
  it.each([
    ["with a crash-window pack", true],
    ["without one", false],
  ])(
    "CS-01 whose first listing is 6 s late, %s: held and renewed throughout, the pack indexed",
    async (_, withPack) => {
      const schema = freshSchema();
      await install(rig, schema);
      if (withPack) await crashWindowPack(schema, ["found"]);
      const { service, store } = publisher(schema, await rig.proxy());
      let late = true;
      store.fault = (operation) => {
        if (operation !== "list" || !late) return undefined;
        late = false;
        return 6_000;
      };
      const started = service.start();
      await until("the lease is held", () => service.status().lease?.state === "held");
      const samples = sampler(service, schema);
      await started;
      const seen = await samples.stop();
      expect(new Set(seen.map(({ state }) => state))).toEqual(new Set(["held"]));
      expect(liedAbout(seen)).toBe(0);
      expect(seen.length).toBeGreaterThan(20);
      expect(service.status().lease!.renewals).toBeGreaterThanOrEqual(3);
      expect(service.status()).toMatchObject({ reconcilePasses: 1, reconciledPacks: withPack ? 1 : 0 });
      if (withPack) expect(await rig.visible(schema, store)).toEqual(new Map([["found", 1]]));
      await service.stop();
    },
  );

  it.each([
    ["an installed", true],
    ["a fresh", false],
  ])(
    "CS-02 on %s catalog tries a claim again that timed out, well before a quarantine would be over",
    async (_, installed) => {
      const schema = freshSchema();
      if (installed) await install(rig, schema);
      const proxy = await rig.proxy();
      const { service } = publisher(schema, proxy);
      proxy.on(leaseRead, { lateMs: 1_500 }, 1);
      await service.start();
      // From one try to the next, which is what the rule is about: how long a busy server takes for the statements of a
      // claim is not.
      const [first, second] = proxy.seen(leaseRead);
      expect(second!.atMs - first!.atMs).toBeGreaterThan(950);
      expect(second!.atMs - first!.atMs).toBeLessThan(3_000 + rig.lateMs(first!.atMs));
      expect(service.status().lease).toMatchObject({ state: "held" });
      await service.stop();
    },
  );

  it.each([
    ["is never delivered", "stall" as const],
    ["is delivered 1.5 s late", { deliverLateMs: 1_500 }],
  ])("CS-03 whose first claim %s waits out its own quarantine, once", async (_, action) => {
    const schema = freshSchema();
    await install(rig, schema);
    const proxy = await rig.proxy();
    const { service } = publisher(schema, proxy, { lease: { ...smallLease, startWaitMs: 4_000 } });
    proxy.on(leaseInsert, action, 1);
    const startedAt = now();
    await service.start();
    expect(now() - startedAt).toBeGreaterThan(3_900);
    expect(now() - startedAt).toBeLessThan(7_000 + rig.lateMs(startedAt));
    expect(service.status().lease).toMatchObject({ state: "held" });
    await service.stop();
  });

  it("CS-04 whose every claim stalls fails after a second one, in W + 2 x T, and names the settings", async () => {
    const schema = freshSchema();
    await install(rig, schema);
    const proxy = await rig.proxy();
    const { service } = publisher(schema, proxy, { lease: { ...smallLease, startWaitMs: 4_000 } });
    proxy.on(leaseInsert, "stall");
    const startedAt = now();
    const refused = await service.start().catch((error: unknown) => error as Error);
    expect(now() - startedAt).toBeLessThan(10_100 + rig.lateMs(startedAt));
    expect(String(refused)).toMatch(/lease\.ttlMs/);
    expect(proxy.seen(leaseInsert)).toHaveLength(2);
    proxy.clear();
    await service.stop();
  });

  it.each([
    [500, 159, "TIMEOUT_EXCEEDED"],
    [500, 473, "DEADLOCK_AVOIDED"],
    [500, 319, "UNKNOWN_STATUS_OF_INSERT"],
  ])("CS-05 whose first claim is answered %i with code %i (%s) treats it as a timeout", async (answer, code, name) => {
    const schema = freshSchema();
    await install(rig, schema);
    const proxy = await rig.proxy();
    const { service } = publisher(schema, proxy, { lease: { ...smallLease, startWaitMs: 4_000 } });
    proxy.on(leaseInsert, { answer, code, name }, 1);
    await service.start();
    expect(service.status().lease).toMatchObject({ state: "held" });
    expect(proxy.seen(leaseInsert).length).toBeGreaterThanOrEqual(2);
    await service.stop();
  });

  it("CS-05 whose first claim is refused for another reason fails at once, after one claim", async () => {
    const schema = freshSchema();
    await install(rig, schema);
    const proxy = await rig.proxy();
    const { service } = publisher(schema, proxy);
    proxy.on(leaseInsert, { answer: 403, code: 516, name: "AUTHENTICATION_FAILED" });
    const refused = await service.start().catch((error: unknown) => error);
    expect(refused).toMatchObject({ serverCode: 516 });
    const [claim] = proxy.seen(leaseInsert);
    expect(proxy.seen(leaseInsert)).toHaveLength(1);
    expect(now() - claim!.atMs).toBeLessThan(1_000 + rig.lateMs(claim!.atMs));
    proxy.clear();
  });

  it("CS-08 that fails after the lease is taken ends its keeper, gives the lease back and leaves nothing running", async () => {
    const schema = freshSchema();
    await install(rig, schema);
    const proxy = await rig.proxy();
    const { service } = publisher(schema, proxy, {
      spool: { directory: "/proc/holdfast-no-such-directory", maxLingerMs: 100 },
    });
    await expect(service.start()).rejects.toMatchObject({ code: "SPOOL_UNWRITABLE" });
    expect(await released(schema)).toBe(true);
    const inserts = proxy.seen(leaseInsert).length;
    const requests = proxy.log.length;
    await sleep(2 * smallLease.ttlMs);
    expect(proxy.seen(leaseInsert)).toHaveLength(inserts);
    expect(proxy.log).toHaveLength(requests);
  });

  it("CS-09 that loses its lease during the listing succeeds quarantined; the loop claims afresh and repeats the pass", async () => {
    const schema = freshSchema();
    await install(rig, schema);
    await crashWindowPack(schema, ["found"]);
    const proxy = await rig.proxy();
    const { service, store } = publisher(schema, proxy);
    let late = true;
    store.fault = (operation) => {
      if (operation !== "list" || !late) return undefined;
      late = false;
      // The renewal, and everything else that the catalog is asked meanwhile, is never answered.
      proxy.on(leaseInsert, "stall", 1);
      return 3_500;
    };
    await service.start();
    expect(service.status().lease?.state).toMatch(/quarantined|reacquiring/);
    expect(service.status()).toMatchObject({ reconcileOwed: true });
    await until("held afresh", () => service.status().lease?.state === "held");
    await until("the pack is indexed", () => service.status().reconciledPacks === 1);
    expect(await rig.visible(schema, store)).toEqual(new Map([["found", 1]]));
    await service.stop();
  });

  it("CS-11 whose reconcile fails is a start all the same; the loop owes and repeats it", async () => {
    const schema = freshSchema();
    await install(rig, schema);
    await crashWindowPack(schema, ["found"]);
    const { service, store } = publisher(schema, await rig.proxy());
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
    const schema = freshSchema();
    await install(rig, schema);
    const { service, store } = publisher(schema, await rig.proxy());
    store.fault = (operation) => (operation === "list" ? "stall" : undefined);
    const started = service.start().catch((error: unknown) => error);
    await until("the listing stalls", () => store.count("list") > 0);
    const stoppedAt = now();
    await Promise.all([service.stop(), service.stop()]);
    expect(now() - stoppedAt).toBeLessThan(2_000 + rig.lateMs(stoppedAt));
    expect(await started).toMatchObject({ code: "STOPPED" });
    expect(await released(schema)).toBe(true);
  });
});

describe.concurrent("a stop", () => {
  it("CS-12 ends the loop first and the keeper after it: the last cycle's pack is indexed under a lease that is renewed", async () => {
    const schema = freshSchema();
    await install(rig, schema);
    const proxy = await rig.proxy();
    const { service, store } = publisher(schema, proxy);
    await service.start();
    // The read of the index takes longer than a lease lives; the stop comes once the catalog's own part has begun.
    store.fault = (operation) => (operation === "get" ? 4_000 / 2 : undefined);
    proxy.on(/^\s*INSERT INTO \S*_snapshot_manifest/, { lateMs: 700 }, 1);
    const samples = sampler(service, schema);
    const { renewals } = service.status().lease!;
    await (await service.append(note("last"))).durable();
    await until("the publish is under way", () => proxy.seen(/INSERT INTO \S*_snapshot_manifest/).length > 0);
    await service.stop();
    const seen = await samples.stop();
    expect(liedAbout(seen)).toBe(0);
    expect(service.status().lease!.renewals).toBeGreaterThan(renewals + 1);
    const inventory = proxy.seen(/INSERT INTO \S*_pack_inventory/);
    expect(inventory).toHaveLength(1);
    expect(proxy.seen(leaseInsert).at(-1)!.atMs).toBeGreaterThan(inventory[0]!.answeredAtMs!);
    expect(await released(schema)).toBe(true);
    expect(await rig.visible(schema, store)).toEqual(new Map([["last", 1]]));
  });

  it("CS-13 with stalled uploads is prompt; what was cut is no failure and stays in the spool", async () => {
    const schema = freshSchema();
    await install(rig, schema);
    const { service, store } = publisher(schema, await rig.proxy());
    await service.start();
    store.fault = (operation) => (operation === "put" ? "stall" : undefined);
    await (await service.append(note("waits"))).durable();
    await until("the upload stalls", () => store.count("put") > 0);
    let ticked = false;
    const ticker = setTimeout(() => (ticked = true), 0);
    const stoppedAt = now();
    await Promise.all([service.stop(), service.stop(), service[Symbol.asyncDispose]()]);
    clearTimeout(ticker);
    const took = now() - stoppedAt;
    expect(took).toBeLessThan(2_000 + rig.lateMs(stoppedAt));
    expect(ticked).toBe(true);
    expect(service.status()).toMatchObject({ uploadFailures: 0, cancelledUploads: 1, spool: { packs: 1 } });
    expect(await released(schema)).toBe(true);
    store.fault = () => undefined;
    const next = publisher(schema, await rig.proxy()).service;
    await next.start();
    expect(await next.flush(20_000)).toBe(true);
    expect(await rig.visible(schema, store)).toEqual(new Map([["waits", 1]]));
    await next.stop();
  });

  it("CS-13 with a stalled read of the index pass is prompt, and the pack stays owed to the bucket", async () => {
    const schema = freshSchema();
    await install(rig, schema);
    const { service, store } = publisher(schema, await rig.proxy());
    await service.start();
    store.fault = (operation) => (operation === "get" ? "stall" : undefined);
    await (await service.append(note("owed"))).durable();
    await until("the read stalls", () => store.count("get") > 0);
    const stoppedAt = now();
    await service.stop();
    expect(now() - stoppedAt).toBeLessThan(2_000 + rig.lateMs(stoppedAt));
    expect(service.status()).toMatchObject({ indexFailures: 0, pendingIndex: 1 });
    expect(await released(schema)).toBe(true);
  });

  it("CS-14 lets a publish of a second finish before it releases", async () => {
    const schema = freshSchema();
    await install(rig, schema);
    const proxy = await rig.proxy();
    const { service, store } = publisher(schema, proxy);
    await service.start();
    const publish = /^\s*INSERT INTO \S*_snapshot_manifest/;
    proxy.on(publish, { lateMs: 800 }, 1);
    await (await service.append(note("shown"))).durable();
    await until("the publish is under way", () => proxy.seen(publish).length > 0);
    await service.stop();
    const [statement] = proxy.seen(publish);
    expect(statement!.status).toBe(200);
    expect(proxy.seen(leaseInsert).at(-1)!.atMs).toBeGreaterThan(statement!.answeredAtMs!);
    expect(await released(schema)).toBe(true);
    expect(await rig.visible(schema, store)).toEqual(new Map([["shown", 1]]));
    const next = publisher(schema, await rig.proxy(), { lease: { ...smallLease, startWaitMs: 0 } }).service;
    await next.start();
    await next.stop();
  });

  it("CS-14 inside a quarantine writes no tombstone and does not call itself released", async () => {
    const schema = freshSchema();
    await install(rig, schema);
    const proxy = await rig.proxy();
    const { service } = publisher(schema, proxy);
    await service.start();
    proxy.on(leaseInsert, "stall", 1);
    await until("quarantined", () => service.status().lease?.state === "quarantined");
    const inserts = proxy.seen(leaseInsert).length;
    await service.stop();
    expect(proxy.seen(leaseInsert)).toHaveLength(inserts);
    expect(service.status().lease?.state).toMatch(/^(quarantined|none)$/);
  });
});
