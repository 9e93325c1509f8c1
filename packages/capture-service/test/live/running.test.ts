// Goal: a running service against a catalog and a store that fail, stall or are slow, and beside rivals. Method: a proxy before
// the engine and a store that can be made to fail, one pair for each test; loops that could blur a count are slowed down.
import { createClient } from "@clickhouse/client";
import { acquireLease } from "@holdfast/lease-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { nodeFiles } from "../../src/spool/files.js";
import {
  freshSchema,
  install,
  leaseInsert,
  note,
  Rig,
  sleep,
  smallLease,
  until,
  versionClaim,
  type NotesSchema,
} from "../support/catalog.js";
import type { Proxy } from "../support/proxy.js";
import type { SwitchStore } from "../support/switch-store.js";

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(async () => {
  await rig.close();
});

const now = () => performance.now();
const numbered = (count: number) => Array.from({ length: count }, (_, i) => `r-${i}`);
const once = (ids: readonly string[]) => new Map(ids.map((id) => [id, 1]));
const onePack = { maxPackRecords: 1, maxLingerMs: 60_000 };
/** The loop runs once, at the start: all other cycles are a flush's. */
const noLoop = { publishIntervalMs: 3_600_000, reconcile: { intervalMs: 0 } };

async function publisher(schema: NotesSchema, o: object = {}, files = nodeFiles()) {
  await install(rig, schema);
  const proxy = await rig.proxy();
  const store = rig.store(`store-${schema.name}`);
  const service = rig.service(
    schema,
    { store, catalog: { ...rig.catalog, url: proxy.url }, reconcile: { intervalMs: 0 }, ...o },
    files,
  );
  await service.start();
  await until("the first cycle has run", () => service.status().cycles > 0);
  return { service, proxy, store };
}

async function objects(store: SwitchStore): Promise<number> {
  const keys = new Set<string>();
  for await (const { key } of store.list({ prefix: "v1/", signal: new AbortController().signal })) keys.add(key);
  return keys.size;
}

// All of these mostly wait, each for a server of its own making, so they wait together.
describe.concurrent("what a publisher owes", () => {
  it("CS-16 uploads nothing new while a pack is owed, and nothing without the lease", async () => {
    const schema = freshSchema();
    const { service, proxy, store } = await publisher(schema, { spool: onePack });
    proxy.on(versionClaim, "fail");
    await service.append(note("r-0"));
    await until("one pack is owed", () => service.status().pendingIndex === 1);
    for (let i = 1; i <= 5; i += 1) await (await service.append(note(`r-${i}`))).durable();
    const cycles = service.status().cycles;
    await until("more cycles", () => service.status().cycles >= cycles + 3);
    expect(await objects(store)).toBe(1);
    expect(service.status().spool).toMatchObject({ packs: 5 });
    proxy.clear();
    await until("all are indexed", () => service.status().indexedRecords === 6);
    expect(await rig.visible(schema, store)).toEqual(once(["r-0", "r-1", "r-2", "r-3", "r-4", "r-5"]));
    proxy.on(leaseInsert, "stall", 1);
    await until("quarantined", () => service.status().lease?.state === "quarantined");
    const puts = store.count("put");
    await (await service.append(note("later"))).durable();
    const quarantined = service.status().cycles;
    await until("cycles in the quarantine", () => service.status().cycles >= quarantined + 3);
    expect(service.status().lease?.state).toBe("quarantined");
    expect(store.count("put")).toBe(puts);
    await until("held again, and indexed", () => service.status().indexedRecords === 7);
    await service.stop();
  });

  it("CS-17 names a pack whose indexing failed, keeps it owed, and needs no second upload", async () => {
    const schema = freshSchema();
    const { service, proxy, store } = await publisher(schema, noLoop);
    proxy.on(versionClaim, "fail", 2);
    await service.append(note("owed"));
    expect(await service.flush(150)).toBe(false);
    await until("its indexing has failed", () => service.status().indexFailures > 0);
    expect(service.status()).toMatchObject({
      pendingIndex: 1,
      lastError: expect.stringMatching(/1 packs are owed.*made to fail/) as string,
    });
    expect(await service.flush(20_000)).toBe(true);
    expect(store.count("put")).toBe(1);
    expect(await rig.visible(schema, store)).toEqual(once(["owed"]));
    await service.stop();
  });

  it("sets aside a pack that breaks a rule after its tries, names it once, and goes on with the others", async () => {
    const schema = freshSchema();
    const { service, store } = await publisher(schema, { spool: onePack, index: { packAttempts: 3 }, ...noLoop });
    let bad = "";
    store.fault = (operation, key) => {
      if (operation !== "get") return undefined;
      bad ||= key;
      return key === bad ? "corrupt" : undefined;
    };
    for (let i = 0; i < 5; i += 1) await (await service.append(note(`r-${i}`))).durable();
    await expect(service.flush(20_000)).rejects.toMatchObject({
      code: "PACKS_SET_ASIDE",
      message: expect.stringMatching(/PACK_CORRUPT|PACK_TRUNCATED/) as string,
    });
    expect(await service.flush(20_000)).toBe(true);
    expect(service.status()).toMatchObject({ indexedRecords: 4, pendingIndex: 0, setAside: [{ key: bad }] });
    await service.stop();
  });
});

describe.concurrent("flush", () => {
  const quick = { catalog: { requestTimeoutMs: 1_000 }, lease: { ttlMs: 3_000, publishTimeoutMs: 500 } };
  const stalls: readonly (readonly [string, (proxy: Proxy, store: SwitchStore) => void])[] = [
    ["a catalog that stalls", (proxy) => proxy.on(/^\s*INSERT INTO (?!\S*publisher_lease)/, "stall")],
    ["a black hole", (proxy) => proxy.on(/./, "stall")],
    ["a slow catalog", (proxy) => proxy.on(/^\s*INSERT INTO (?!\S*publisher_lease)/, { lateMs: 900 })],
    ["stalled uploads", (_, store) => (store.fault = (operation) => (operation === "put" ? "stall" : undefined))],
    ["stalled index reads", (_, store) => (store.fault = (operation) => (operation === "get" ? "stall" : undefined))],
  ];
  it.each(stalls)("CS-19 returns on time under %s, and the service runs on", async (_, stall) => {
    const schema = freshSchema();
    await install(rig, schema);
    const proxy = await rig.proxy();
    const store = rig.store(`store-${schema.name}`);
    const catalog = { ...rig.catalog, url: proxy.url, ...quick.catalog };
    const service = rig.service(schema, {
      store,
      catalog,
      lease: quick.lease,
      spool: onePack,
      reconcile: { intervalMs: 0 },
    });
    await service.start();
    stall(proxy, store);
    for (let i = 0; i < 5; i += 1) await (await service.append(note(`r-${i}`))).durable();
    const startedAt = now();
    expect(await service.flush(2_000)).toBe(false);
    expect(now() - startedAt).toBeLessThan(2_000 + 1_000 + rig.lateMs(startedAt));
    expect(service.status().state).toBe("running");
    proxy.clear();
    store.fault = () => undefined;
    await service.stop();
  });

  it("CS-20 of 0 is one cycle: one owed batch indexed, nothing uploaded, nothing read from the spool; empty, it is drained", async () => {
    const schema = freshSchema();
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
    const { service, proxy, store } = await publisher(
      schema,
      { spool: onePack, index: { packsPerPass: 1 }, ...noLoop },
      spying,
    );
    expect(await service.flush(0)).toBe(true);
    for (let i = 0; i < 3; i += 1) await (await service.append(note(`owed-${i}`))).durable();
    proxy.on(versionClaim, "fail");
    expect(await service.flush(1_000)).toBe(false);
    expect(service.status().pendingIndex).toBe(3);
    for (let i = 0; i < 100; i += 1) await (await service.append(note(`staged-${i}`))).durable();
    proxy.clear();
    await until("no cycle runs", () => service.status().spool?.packs === 100);
    await sleep(300);
    const before = { puts: store.count("put"), cycles: service.status().cycles };
    bytesRead = 0;
    expect(await service.flush(0)).toBe(false);
    expect(service.status()).toMatchObject({ pendingIndex: 2, indexedPacks: 1, cycles: before.cycles + 1 });
    expect(store.count("put")).toBe(before.puts);
    expect(bytesRead).toBe(0);
    await service.stop();
  });

  it("CS-21 never reconciles, and after it a stop runs no further cycle", async () => {
    const schema = freshSchema();
    const { service } = await publisher(schema, { publishIntervalMs: 3_600_000, reconcile: { intervalMs: 1 } });
    await until("the loop has reconciled as well", () => service.status().reconcilePasses === 2);
    await service.append(note("a"));
    const { reconcilePasses } = service.status();
    expect(await service.flush(20_000)).toBe(true);
    const after = service.status();
    expect(after.reconcilePasses).toBe(reconcilePasses);
    await service.stop();
    expect(service.status()).toMatchObject({ cycles: after.cycles, reconcilePasses });
  });
});

describe.concurrent("beside others", () => {
  it("CS-15 checks the lease before every chunk: lost between two, no upload follows", async () => {
    const schema = freshSchema();
    const { service, proxy, store } = await publisher(schema, {
      spool: onePack,
      upload: { concurrency: 1 },
      ...noLoop,
    });
    for (let i = 0; i < 12; i += 1) await (await service.append(note(`r-${i}`))).durable();
    // Each upload takes a while, and the lease is never renewed again: it ends among the chunks of four.
    store.fault = (operation) => (operation === "put" ? 500 : undefined);
    proxy.on(leaseInsert, "stall");
    const deadline = { at: Infinity };
    const watch = setInterval(() => {
      if (service.status().lease?.state !== "held") deadline.at = Math.min(deadline.at, now());
    }, 10);
    await service.flush(9_000);
    clearInterval(watch);
    expect(deadline.at).toBeLessThan(Infinity);
    const puts = store.calls.filter(({ operation }) => operation === "put");
    // A chunk that was begun under the lease is finished; none is begun after it.
    expect(puts.filter(({ atMs }) => atMs > deadline.at + 4 * 550)).toHaveLength(0);
    expect(puts.length).toBeLessThan(12);
    proxy.clear();
    await until("all are indexed in the end", async () => {
      await service.flush(5_000);
      return service.status().indexedRecords === 12;
    });
    await service.stop();
  });

  it("CS-22 a standby uploads while another publishes, is never latched, takes over, and goes back to waiting when it loses", async () => {
    const schema = freshSchema();
    await install(rig, schema);
    const store = rig.store(`store-${schema.name}`);
    const first = rig.service(schema, {
      store,
      reconcile: { intervalMs: 0 },
      spool: { directory: rig.path(`first-${schema.name}`) },
    });
    await first.start();
    const proxy = await rig.proxy();
    const standby = rig.service(schema, { role: "standby", store, catalog: { ...rig.catalog, url: proxy.url } });
    await standby.start();
    await standby.append(note("while-waiting"));
    expect(await standby.flush(10_000)).toBe(true);
    const states = new Set<string>();
    for (const end = now() + 4 * smallLease.ttlMs; now() < end;) {
      states.add(standby.status().lease?.state ?? "");
      await sleep(50);
    }
    expect([...states].filter((state) => !["reacquiring", "none"].includes(state))).toEqual([]);
    expect(standby.status()).toMatchObject({ uploadedPacks: 1, indexedPacks: 0 });
    await first.stop();
    await until("the standby holds", () => standby.status().lease?.state === "held");
    await until("it has indexed what it uploaded", () => standby.status().reconciledPacks === 1);
    expect(await rig.visible(schema, store)).toEqual(once(["while-waiting"]));
    proxy.on(leaseInsert, "stall");
    const rival = createClient(rig.catalog);
    const keeper = await acquireLease({ client: rival, name: schema.name, lease: smallLease, waitMs: 20_000 });
    proxy.clear();
    await until("the standby waits", () => standby.status().lease?.state === "reacquiring");
    await standby.append(note("after-losing"));
    expect(await standby.flush(10_000)).toBe(true);
    expect(standby.status()).toMatchObject({ uploadedPacks: 2 });
    await keeper.stop();
    await rival.close();
    await until("it shows that too", async () => (await rig.visible(schema, store)).size === 2);
    await standby.stop();
  });

  it("CS-10 a publisher that loses to another holder retakes when it leaves, and gives up after 2 x T when it stays", async () => {
    const schema = freshSchema();
    const { service, proxy, store } = await publisher(schema);
    const rival = createClient(rig.catalog);
    const pushAside = async () => {
      proxy.on(leaseInsert, "stall");
      const keeper = await acquireLease({ client: rival, name: schema.name, lease: smallLease, waitMs: 20_000 });
      proxy.clear();
      return keeper;
    };
    const first = await pushAside();
    await (await service.append(note("kept"))).durable();
    await first.stop();
    await until("retaken and indexed", () => service.status().indexedRecords === 1);
    const second = await pushAside();
    await until("reacquiring", () => service.status().lease?.state === "reacquiring");
    const refusedAt = now();
    await until("given up", () => service.status().lease?.state === "failed");
    expect(now() - refusedAt).toBeGreaterThan(2 * smallLease.ttlMs - 1_000);
    expect(now() - refusedAt).toBeLessThan(2 * smallLease.ttlMs + 2_000 + rig.lateMs(refusedAt));
    await (await service.append(note("safe"))).durable();
    await expect(service.flush(5_000)).rejects.toMatchObject({ code: "LEASE_LATCHED" });
    await second.stop();
    await rival.close();
    await service.stop();
    // Nothing is lost by it: the next start shows what was in the spool.
    const next = rig.service(schema, { store });
    await next.start();
    expect(await next.flush(20_000)).toBe(true);
    expect(await rig.visible(schema, store)).toEqual(once(["kept", "safe"]));
    await next.stop();
  });

  it("CS-25 a service with a stalled catalog delays no other one in the process", async () => {
    const [stalled, well] = [await publisher(freshSchema()), await publisher(freshSchema())];
    stalled.proxy.on(/./, "stall");
    const before = well.service.status().lease!.renewals;
    const states = new Set<string>();
    for (const end = now() + 6_000; now() < end;) {
      states.add(well.service.status().lease?.state ?? "");
      await sleep(20);
    }
    expect(states).toEqual(new Set(["held"]));
    // One renewal each third of the TTL.
    expect(well.service.status().lease!.renewals - before).toBeGreaterThanOrEqual(4);
    expect(stalled.service.status().lease?.state).not.toBe("held");
    for (const { service } of [stalled, well]) expect(service.status().lastError ?? "").not.toContain("NESTED_LEASE");
    stalled.proxy.clear();
    await Promise.all([stalled.service.stop(), well.service.stop()]);
  });

  it("CS-26 an idle service gives the lease back and writes nothing more, until there is new data", async () => {
    const schema = freshSchema();
    const { service, proxy, store } = await publisher(schema, { releaseWhenIdleMs: 1_000, reconcile: {} });
    await service.append(note("first"));
    expect(await service.flush(10_000)).toBe(true);
    await until("given back", () => service.status().lease?.state === "released");
    // It says so from when the tombstone leaves: that one has to be through before writes are counted.
    await until("its tombstone sent", () => proxy.seen(/stamped_ns, stamped_ns FROM/).length === 1);
    const writes = proxy.seen(/^\s*INSERT/).length;
    await sleep(10 * smallLease.ttlMs);
    expect(proxy.seen(/^\s*INSERT/)).toHaveLength(writes);
    await (await service.append(note("second"))).durable();
    const appendedAt = now();
    await until("held and indexed", () => service.status().indexedRecords === 2);
    // Linger and publish interval of 100 ms each, a claim of at most T / 3, and the publish.
    expect(now() - appendedAt).toBeLessThan(200 + smallLease.ttlMs / 3 + 2_000 + rig.lateMs(appendedAt));
    expect(await rig.visible(schema, store)).toEqual(once(["first", "second"]));
    await service.stop();
  });
});

describe.concurrent("an outage", () => {
  it("CS-18 down for 20 s: asked at doubling intervals, the lease held and renewed, no pack set aside, all indexed after", async () => {
    const schema = freshSchema();
    const store = rig.store(`store-${schema.name}`);
    const service = rig.service(schema, { store, publishIntervalMs: 500, reconcile: { intervalMs: 0 } });
    await service.start();
    store.fault = () => "down";
    const startedAt = performance.now();
    const ids = numbered(10);
    for (const id of ids) {
      await service.append(note(id));
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    const states = new Set<string>();
    while (performance.now() - startedAt < 20_000) {
      states.add(service.status().lease?.state ?? "none");
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    const asked = store.calls.map(({ atMs }) => atMs - startedAt);
    // 0.5, 1, 2, 4, 8 s after each other; the first round has a few packs at a time.
    expect(asked.length).toBeLessThan(16);
    expect(asked.filter((at) => at > 5_000).length).toBeLessThanOrEqual(2);
    expect(states).toEqual(new Set(["held"]));
    expect(service.status()).toMatchObject({
      setAside: [],
      lastError: expect.stringContaining("made to be down") as string,
    });
    expect(service.status().lease?.renewals).toBeGreaterThan(10);
    store.fault = () => undefined;
    await until("all is indexed after the outage", () => service.status().indexedRecords === 10, 25_000);
    expect(await rig.visible(schema, store)).toEqual(once(ids));
    await service.stop();
  });
});

describe.concurrent("the status", () => {
  it("CS-24 is plain JSON and shows lease, quarantine, timeouts and what is owed", async () => {
    const schema = freshSchema();
    const { service, proxy } = await publisher(schema, { lease: { ttlMs: 1_500, publishTimeoutMs: 500 } });
    proxy.on(leaseInsert, "stall");
    await until("quarantined", () => service.status().lease?.state === "quarantined");
    const status = service.status();
    expect(JSON.parse(JSON.stringify(status))).toEqual(status);
    expect(status.lease!.quarantinedUntilMs).toBeGreaterThan(now() - 1_000);
    expect(status.lease).toMatchObject({
      renewals: expect.any(Number) as number,
      reacquisitions: 0,
      leaseTimeouts: 1,
      leaseTimeoutError: null,
    });
    await until("three timeouts name the settings", () => service.status().lease?.leaseTimeoutError !== null);
    expect(service.status().lastError).toMatch(/lease\.ttlMs 1500.*catalog\.requestTimeoutMs/);
    proxy.clear();
    await until("held again", () => service.status().lease?.state === "held");
    expect(service.status().lease!.reacquisitions).toBeGreaterThanOrEqual(1);
    await service.stop();
  });
});
