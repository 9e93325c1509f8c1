// Goal: the whole way of a record, on the real engine and a real directory. Method: one server; each test has a catalog, a store and a
// spool of its own; what is visible is read by a reader that shares nothing with the service.
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { until } from "@holdfast-private/tests-machine";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freshSchema, leaseRead, foreverMs, note, numbered, once, patientLease } from "../support/catalog.js";
import { renew } from "../support/lease.js";
import { moreCycles } from "../support/publisher.js";
import { Rig, startInstalling } from "../support/rig.js";

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(async () => {
  await rig.close();
});

describe("a publisher", () => {
  it("takes records, makes them durable, shows each once, and goes away cleanly", async () => {
    const schema = freshSchema();
    const store = rig.store(`store-${schema.name}`);
    const service = rig.service(schema, { store });
    await startInstalling(service);
    const ids = numbered(20);
    const receipts = await Promise.all(ids.slice(0, 10).map((id) => service.append(note(id))));
    const batch = await service.appendBatch(ids.slice(10).map((id) => note(id)));
    expect(batch.captureIds).toEqual(ids.slice(10));
    await Promise.all([...receipts, batch].map((receipt) => receipt.durable()));
    expect(await service.flush(foreverMs)).toBe(true);
    expect(await rig.visible(schema, store)).toEqual(once(ids));
    const status = service.status();
    expect(status).toMatchObject({
      state: "running",
      pendingIndex: 0,
      indexedRecords: 20,
      lastError: null,
      setAside: [],
    });
    expect(status.lease).toMatchObject({ state: "held" });
    expect(JSON.parse(JSON.stringify(status))).toEqual(status);
    await service.stop();
    expect(service.status()).toMatchObject({ state: "stopped", lease: { state: "released" } });
    await service.stop();
    expect(await service.flush(10)).toBe(false);
    await expect(service.append(note("late"))).rejects.toMatchObject({ code: "STOPPED" });
  });

  it("CS-06 a second one is refused at the end of its wait, by holder, with its spool untouched, and takes over after a release", async () => {
    const schema = await rig.installed();
    const store = rig.store(`store-${schema.name}`);
    const first = rig.service(schema, { store, lease: { ...patientLease, holder: "the-first" } });
    await first.start();
    const spool = { directory: rig.path(`second-${schema.name}`) };
    const before = rig.service(schema, { role: "capture-only", store, spool });
    store.fault = (operation) => (operation === "put" ? "down" : undefined);
    await before.start();
    await (await before.append(note("left"))).durable();
    await before.stop();
    store.fault = () => undefined;
    // A file that no receipt was given for: whoever opens the spool removes it.
    const [sealed] = (await readdir(spool.directory)).filter((name) => name.endsWith(".hfpack"));
    const begun = sealed!.replace(/\.\d{16}-([0-9a-f-]{36})\..*$/, ".0000000000000007-$1.begun");
    await writeFile(join(spool.directory, begun), "");
    const left = await listing(spool.directory);
    const proxy = await rig.proxy();
    const second = (startWaitMs: number) =>
      rig.service(schema, {
        store,
        catalog: { ...rig.catalog, url: proxy.url },
        spool,
        lease: { ...patientLease, startWaitMs },
      });
    const startedAt = performance.now();
    await expect(second(1_000).start()).rejects.toMatchObject({
      code: "LEASE_HELD",
      message: expect.stringMatching(/the-first.*1000 ms/) as string,
    });
    expect(performance.now() - startedAt).toBeGreaterThanOrEqual(1_000);
    expect(await listing(spool.directory)).toEqual(left);
    const refusals = proxy.seen(leaseRead).length;
    const next = second(patientLease.ttlMs);
    const started = next.start();
    await until("it waits", () => proxy.seen(leaseRead).length > refusals);
    expect(await listing(spool.directory)).toEqual(left);
    await first.stop();
    const freeAt = performance.now();
    await started;
    // Two ticks of a lease of ten minutes: no machine needs them, and who waits for the row to end does.
    expect(performance.now() - freeAt).toBeLessThan((2 * patientLease.ttlMs) / 6);
    expect(await listing(spool.directory)).not.toContain(`${begun} 0`);
    expect(next.status().lease).toMatchObject({ state: "held" });
    expect(await next.flush(foreverMs)).toBe(true);
    expect(await rig.visible(schema, store)).toEqual(once(["left"]));
    await next.stop();
  });

  it("starts again on its own spool and numbers on", async () => {
    const schema = await rig.installed();
    const store = rig.store(`store-${schema.name}`);
    for (const round of ["a", "b", "c"]) {
      const service = rig.service(schema, { store });
      await service.start();
      await service.append(note(`in-${round}`));
      expect(await service.flush(foreverMs)).toBe(true);
      // Appended and not flushed: the next round's start finds it in the spool.
      await service.append(note(`left-${round}`));
      await service.stop();
    }
    const last = rig.service(schema, { store });
    await last.start();
    expect(await last.flush(foreverMs)).toBe(true);
    expect(await rig.visible(schema, store)).toEqual(once(["in-a", "left-a", "in-b", "left-b", "in-c", "left-c"]));
    const rows = await rig.rows<{ sequence: string; writer_id: string }>(
      `SELECT DISTINCT sequence, writer_id FROM ${schema.name}_pack_inventory ORDER BY sequence`,
    );
    expect(rows.map(({ sequence }) => Number(sequence))).toEqual(rows.map((_, i) => i));
    expect(new Set(rows.map(({ writer_id }) => writer_id)).size).toBe(1);
    await last.stop();
  });
});

async function listing(directory: string): Promise<string[]> {
  const names = (await readdir(directory)).sort();
  return Promise.all(
    names.map(async (name) => `${name} ${(await readFile(join(directory, name)).catch(() => "")).length}`),
  );
}

describe("capture-only", () => {
  it("CS-23 needs no ClickHouse, flushes when its packs are in the store, and a publisher beside it shows them once", async () => {
    const schema = await rig.installed();
    const store = rig.store(`store-${schema.name}`);
    const application = rig.service(schema, {
      role: "capture-only",
      store,
      spool: { directory: rig.path(`app-${schema.name}`) },
    });
    await application.start();
    const ids = numbered(12);
    await application.appendBatch(ids.slice(0, 6).map((id) => note(id)));
    expect(await application.flush(foreverMs)).toBe(true);
    expect(application.status()).toMatchObject({
      lease: null,
      catalogStatements: 0,
      uploadedPacks: 1,
      pendingIndex: 0,
    });
    const { ttlMs } = patientLease;
    const stage = await rig.stage({ schema, reconcile: { intervalMs: ttlMs / 4 } });
    const { service: publisher } = stage;
    await publisher.start();
    expect((await rig.visible(schema, store)).size).toBe(6);
    await application.appendBatch(ids.slice(6).map((id) => note(id)));
    expect(await application.flush(foreverMs)).toBe(true);
    // Not before the interval, which is longer than the usual one; then within it.
    await moreCycles(stage, 2);
    expect(publisher.status().reconcilePasses).toBe(1);
    await renew(stage);
    await until(
      "the publisher shows what the application captured",
      async () => (await rig.visible(schema, store)).size === 12,
    );
    expect(await rig.visible(schema, store)).toEqual(once(ids));
    expect(publisher.status()).toMatchObject({ reconciledPacks: 2, uploadedPacks: 0 });
    await application.stop();
    await publisher.stop();
  });
});

describe("a store that fails", () => {
  it("SP-12 an answer that is lost leaves one object; another object at the key is a conflict and is not overwritten", async () => {
    const schema = freshSchema();
    const store = rig.store(`store-${schema.name}`);
    const service = rig.service(schema, { role: "capture-only", store });
    await service.start();
    let lose = 1;
    store.fault = (operation) => (operation === "put" && lose-- > 0 ? "lost" : undefined);
    await service.append(note("kept"));
    expect(await service.flush(foreverMs)).toBe(true);
    expect(store.count("put")).toBe(1);
    expect(service.status()).toMatchObject({ uploadedPacks: 1, uploadFailures: 0 });
    // The next pack's key is taken by something else before it is uploaded.
    const signal = new AbortController().signal;
    store.fault = (operation) => (operation === "put" ? "down" : undefined);
    await (await service.append(note("blocked"))).durable();
    await until("the pack was tried", () => service.status().uploadFailures > 0);
    const key = store.calls.filter((call) => call.operation === "put").at(-1)!.key;
    store.fault = () => undefined;
    await store.put(key, new TextEncoder().encode("alien"), { mode: "create", signal });
    await expect(service.flush(foreverMs)).rejects.toMatchObject({
      code: "PACKS_SET_ASIDE",
      message: expect.stringContaining(key) as string,
    });
    expect(Buffer.from((await store.get(key, { signal })).bytes).toString()).toBe("alien");
    expect(service.status().spool).toMatchObject({ packs: 1 });
    // Named once; what comes after goes on.
    await service.append(note("after"));
    expect(await service.flush(foreverMs)).toBe(true);
    await service.stop();
  });

  it("SP-13 a pack over the store's limit is named and set aside, the others go", async () => {
    const schema = freshSchema();
    const store = rig.store(`store-${schema.name}`);
    const service = rig.service(schema, { role: "capture-only", store, spool: { maxLingerMs: 60_000 } });
    await service.start();
    store.fault = () => "down";
    for (const id of numbered(8)) {
      await (await service.append(note(id, id === "r-3" ? 100_000 : 500))).durable();
      await service.flush(1);
    }
    await until("eight packs", () => service.status().spool?.packs === 8);
    store.capabilities = { ...store.capabilities, maxObjectBytes: 50_000 };
    store.fault = () => undefined;
    await expect(service.flush(foreverMs)).rejects.toMatchObject({
      code: "PACKS_SET_ASIDE",
      message: expect.stringMatching(/^\[PACKS_SET_ASIDE\] 1 packs/) as string,
    });
    expect(await service.flush(foreverMs)).toBe(true);
    expect(service.status()).toMatchObject({ uploadedPacks: 7, setAside: [{ code: "TOO_LARGE" }] });
    await service.stop();
  });
});

describe("a spool that was damaged", () => {
  it(
    "five packs, one of them damaged in every way there is: the others are shown, it is moved aside and named once",
    { tags: ["slow"] },
    async () => {
      const damages: readonly (readonly [string, (bytes: Buffer) => Buffer])[] = [
        ["empty", () => Buffer.alloc(0)],
        ["one byte", (bytes) => bytes.subarray(0, 1)],
        ["cut in the header", (bytes) => bytes.subarray(0, 40)],
        ["cut in a record", (bytes) => bytes.subarray(0, bytes.length - 900)],
        ["cut in the trailer", (bytes) => bytes.subarray(0, bytes.length - 10)],
        ["one bit", (bytes) => bytes.map((byte, at) => (at === 700 ? byte ^ 1 : byte)) as Buffer],
        ["the end zeroed", (bytes) => Buffer.concat([bytes.subarray(0, bytes.length - 1024), Buffer.alloc(1024)])],
        ["random", (bytes) => Buffer.alloc(bytes.length, "random")],
      ];
      await Promise.all(
        damages.map(async ([what, damage]) => {
          const schema = await rig.installed();
          const store = rig.store(`store-${schema.name}`);
          const first = rig.service(schema, { role: "capture-only", store });
          store.fault = () => "down";
          await first.start();
          for (const id of numbered(5)) {
            await (await first.append(note(id, 2000))).durable();
            await first.flush(1);
          }
          await until("five packs", () => first.status().spool?.packs === 5);
          await first.stop();
          store.fault = () => undefined;
          const directory = rig.path(`spool-${schema.name}`);
          const third = join(
            directory,
            (await readdir(directory)).filter((name) => name.endsWith(".hfpack")).sort()[2]!,
          );
          await writeFile(third, damage(await readFile(third)));
          const service = rig.service(schema, { role: "capture-only", store });
          await service.start();
          expect([what, await service.flush(foreverMs)]).toEqual([what, true]);
          expect(service.status()).toMatchObject({
            uploadedPacks: 4,
            publishedVoids: 1,
            spool: { movedAside: 1, packs: 0 },
          });
          expect(service.status().lastError).toContain("moved aside");
          expect((await readdir(directory)).filter((name) => name.endsWith(".quarantined"))).toHaveLength(1);
          await service.append(note("after"));
          expect(await service.flush(foreverMs)).toBe(true);
          await service.stop();
          const publisher = rig.service(schema, { store, spool: { directory: rig.path(`publisher-${schema.name}`) } });
          await publisher.start();
          expect([what, await rig.visible(schema, store)]).toEqual([what, once(["r-0", "r-1", "r-3", "r-4", "after"])]);
          await publisher.stop();
        }),
      );
    },
  );

  it("names that are no files, and files that are not ours, do not stop it either", async () => {
    const schema = freshSchema();
    const store = rig.store(`store-${schema.name}`);
    const directory = rig.path(`spool-${schema.name}`);
    const pack = `0191f0a0-0000-7000-8000-000000000001.0000000000000003-0191f0a0-0000-7000-8000-0000000000ff.1.${"ab".repeat(32)}.hfpack`;
    await mkdir(join(directory, pack), { recursive: true });
    await writeFile(join(directory, "notes.txt"), "mine");
    const service = rig.service(schema, { role: "capture-only", store });
    await service.start();
    await service.append(note("a"));
    expect(await service.flush(foreverMs)).toBe(true);
    expect(service.status().spool?.lastError).toMatch(/not a file/);
    expect(await readFile(join(directory, "notes.txt"), "utf8")).toBe("mine");
    await service.stop();
  });
});
