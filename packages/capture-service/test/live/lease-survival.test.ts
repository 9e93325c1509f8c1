// Goal: what a lease survives, and what comes back when it did not. Method: a catalog that is cut off by a proxy, in real time, with a TTL
// that fits this machine; and a disk whose fdatasync hangs for longer than a lease lives: opens of a FIFO, which block real threads of
// libuv's pool until it has a writer.
import { execFileSync } from "node:child_process";
import { lookup } from "node:dns/promises";
import { closeSync, constants, openSync } from "node:fs";
import { open } from "node:fs/promises";
import { until } from "@holdfast-private/tests-machine";
import { afterAll, beforeAll, expect, it } from "vitest";
import { nodeFiles, type SpoolFile, type SpoolFiles } from "../../src/spool/files.js";
import { poolGate } from "../../src/spool/gate.js";
import { foreverMs, manifestInsert, note, numbered, once } from "../support/catalog.js";
import { renew, sampler, stateOf } from "../support/lease.js";
import { Rig } from "../support/rig.js";

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(async () => {
  await rig.close();
});

it("LK-13 a catalog that is cut off across a renewal and a publish costs a quarantine; then the lease is fresh and the packs are indexed once", async () => {
  const schema = await rig.installed();
  const proxy = await rig.proxy();
  const store = rig.store(`store-${schema.name}`);
  const catalog = { ...rig.catalog, url: proxy.url };
  const lease = await rig.smallLease();
  const service = rig.service(schema, { store, catalog, lease, reconcile: { intervalMs: 0 } });
  await service.start();
  await using row = sampler(rig, service, schema);
  await until("held", () => stateOf(service) === "held");
  // Its manifest, the last statement but one of a publish, is not answered, and nothing is from then on.
  proxy.on(manifestInsert, "stall", 1);
  await (await service.append(note("cut"))).durable();
  await until("the publish is under way", () => proxy.seen(manifestInsert).length > 0);
  proxy.on(/./, "stall");
  const { reacquisitions } = service.status().lease!;
  await until("quarantined", () => stateOf(service) === "quarantined");
  await until("the row is over", async () => !(await row.next()).rowLive);
  proxy.clear();
  await until("indexed", () => service.status().indexedRecords === 1);
  await row.stop();
  expect(row.lies()).toEqual([]);
  expect(service.status().lease!.reacquisitions).toBeGreaterThan(reacquisitions);
  expect(await rig.visible(schema, store)).toEqual(once(["cut"]));
  // The publish that was cut off had written its rows already; the second one's take their place when parts are merged.
  const [copies] = await rig.rows<{ n: number | string }>(`SELECT count() AS n FROM ${schema.name}_record FINAL`);
  expect(Number(copies!.n)).toBe(1);
  await service.stop();
});

/** The real file system, whose fdatasync can be made to hang: in a thread of the pool, as on a sick disk. */
function sickFiles(fifo: string) {
  execFileSync("mkfifo", [fifo]);
  const real = nodeFiles();
  let sick = false;
  let hanging = 0;
  const datasync = async (file: SpoolFile): Promise<void> => {
    if (sick) {
      hanging += 1;
      // Returns when the FIFO has a writer.
      await poolGate.run(async () => (await open(fifo, "r")).close());
    }
    await file.datasync();
  };
  const files: SpoolFiles = {
    ...real,
    open: async (path, mode) => {
      const file = await real.open(path, mode);
      return Object.assign(Object.create(file) as SpoolFile, { datasync: () => datasync(file) });
    },
  };
  let writer: number | undefined;
  return {
    files,
    hanging: () => hanging,
    hang: () => (sick = true),
    /** Lets go what hangs, and what is about to. */
    heal() {
      sick = false;
      writer ??= openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK);
    },
    [Symbol.dispose]() {
      if (writer !== undefined) closeSync(writer);
    },
  };
}

it("LK-26 a sick disk does not take the lease: held and renewed while every fdatasync hangs for 2 x T, and appends wait", async () => {
  using disk = sickFiles(rig.path("sick-disk"));
  // More than the pool has threads.
  const others = await Promise.all(
    [1, 2, 3, 4].map((n) => disk.files.open(rig.path(`on-the-sick-disk-${n}`), "create")),
  );
  const spool = { maxQueuedBytes: 4_096, admissionTimeoutMs: foreverMs, maxLingerMs: 50 };
  const stage = await rig.stage({ spool }, disk.files);
  const { schema, store, service } = stage;
  await service.start();
  const { leaseId } = service.status().lease!;
  disk.hang();
  try {
    const ids = numbered(20);
    let admitted = 0;
    const appends = ids.map(async (id) => {
      await (await service.append(note(id))).durable();
      admitted += 1;
    });
    await until("its fdatasync hangs", () => disk.hanging() > 0);
    const synced = Promise.all(others.map((file) => file.datasync()));
    await until("all others do", () => disk.hanging() > others.length);
    // A lease connection that breaks has to find its server's name again, which takes a thread of the pool.
    let found = false;
    void lookup("localhost").then(() => (found = true));
    await until("a name is found", () => found);
    await renew(stage, 6);
    expect(admitted).toBe(0);
    disk.heal();
    await Promise.all([synced, ...appends]);
    await until("all is indexed", () => service.status().indexedRecords === ids.length);
    expect(service.status().lease).toMatchObject({ state: "held", leaseId });
    expect(await rig.visible(schema, store)).toEqual(once(ids));
  } finally {
    disk.heal();
    await service.stop();
    await Promise.all(others.map((file) => file.close()));
  }
});
