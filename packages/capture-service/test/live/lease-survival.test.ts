// Goal: what a lease survives, and what comes back when it did not. Method: a catalog that is cut off by a proxy, and a disk whose
// fdatasync hangs for longer than a lease lives: opens of a FIFO, which block real threads of libuv's pool until somebody writes.
import { execFileSync } from "node:child_process";
import { closeSync, constants, openSync } from "node:fs";
import { open } from "node:fs/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { nodeFiles, type SpoolFile, type SpoolFiles } from "../../src/spool/files.js";
import { poolGate } from "../../src/spool/gate.js";
import { freshSchema, install, note, Rig, sleep, smallLease, until } from "../support/catalog.js";

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(async () => {
  await rig.close();
});

/** What `say` answers over time, each run of equal answers once. */
function changes(say: () => string): { readonly seen: string[]; stop(): void } {
  const seen: string[] = [];
  const look = () => {
    if (seen.at(-1) !== say()) seen.push(say());
  };
  const timer = setInterval(look, 5);
  return { seen, stop: () => clearInterval(timer) };
}

it("LK-13 a catalog that is cut off across a renewal and a publish costs a quarantine; then the lease is fresh and the packs are indexed once", async () => {
  const schema = freshSchema();
  await install(rig, schema);
  const proxy = await rig.proxy();
  const store = rig.store(`store-${schema.name}`);
  const catalog = { ...rig.catalog, url: proxy.url };
  const service = rig.service(schema, { store, catalog, reconcile: { intervalMs: 0 } });
  await service.start();
  const states = changes(() => service.status().lease?.state ?? "none");
  // Its manifest, the last statement but one of a publish, is not answered, and nothing is from then on.
  proxy.on(/^\s*INSERT INTO \S*_snapshot_manifest/, "stall", 1);
  await (await service.append(note("cut"))).durable();
  await until("the publish is under way", () => proxy.seen(/INSERT INTO \S*_snapshot_manifest/).length > 0);
  proxy.on(/./, "stall");
  await sleep(4_000);
  proxy.clear();
  await until("held again, and indexed", () => service.status().indexedRecords === 1);
  states.stop();
  expect(states.seen.filter((state) => state !== "reacquiring")).toEqual(["held", "quarantined", "held"]);
  expect(service.status().lease).toMatchObject({ reacquisitions: 1 });
  expect(await rig.visible(schema, store)).toEqual(new Map([["cut", 1]]));
  // The publish that was cut off had written its rows already; the second one's take their place when parts are merged.
  const [copies] = await rig.rows<{ n: number | string }>(`SELECT count() AS n FROM ${schema.name}_record FINAL`);
  expect(Number(copies!.n)).toBe(1);
  await service.stop();
});

/** The real file system, whose fdatasync can be made to hang: in a thread of the pool, as on a sick disk. */
function sickFiles(fifo: string): { readonly files: SpoolFiles; hang(): void; heal(): void; hanging(): number } {
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
    heal() {
      sick = false;
      writer ??= openSync(fifo, constants.O_RDWR | constants.O_NONBLOCK);
      setTimeout(() => closeSync(writer!), 1_000).unref();
    },
  };
}

it("LK-26 a sick disk does not take the lease: held and renewed while every fdatasync hangs for 2 x T, and appends wait", async () => {
  const schema = freshSchema();
  await install(rig, schema);
  const store = rig.store(`store-${schema.name}`);
  const disk = sickFiles(rig.path("sick-disk"));
  // By name, so that every new connection needs a thread of the pool, too.
  const catalog = { ...rig.catalog, url: rig.catalog.url.replace("127.0.0.1", "localhost") };
  const spool = { maxQueuedBytes: 4_096, admissionTimeoutMs: 60_000, maxLingerMs: 50 };
  const service = rig.service(schema, { store, catalog, spool, reconcile: { intervalMs: 0 } }, disk.files);
  await service.start();
  const { renewals } = service.status().lease!;
  const states = changes(() => service.status().lease?.state ?? "none");
  disk.hang();
  try {
    const ids = Array.from({ length: 20 }, (_, i) => `s-${i}`);
    let admitted = 0;
    const appends = ids.map(async (id) => {
      await (await service.append(note(id))).durable();
      admitted += 1;
    });
    await until("an fdatasync hangs", () => disk.hanging() > 0);
    await sleep(2 * smallLease.ttlMs);
    expect(admitted).toBe(0);
    expect(service.status().lease!.renewals).toBeGreaterThanOrEqual(renewals + 3);
    disk.heal();
    await Promise.all(appends);
    await until("all is indexed", () => service.status().indexedRecords === ids.length);
    states.stop();
    expect(states.seen).toEqual(["held"]);
    expect(await rig.visible(schema, store)).toEqual(new Map(ids.map((id) => [id, 1])));
  } finally {
    disk.heal();
    await service.stop();
  }
});
