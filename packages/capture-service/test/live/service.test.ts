// Goal: the whole way of a record, on the real engine and a real directory. Method: one embedded server; each test has a
// catalog, a store and a spool of its own; what is visible is read by a reader that shares nothing with the service.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freshSchema, note, Rig } from "../support/catalog.js";

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(async () => {
  await rig.close();
});

const counts = (ids: readonly string[]) => new Map(ids.map((id) => [id, 1]));

describe("a publisher", () => {
  it("takes records, makes them durable, shows each once, and goes away cleanly", async () => {
    const schema = freshSchema();
    const store = rig.store(`store-${schema.name}`);
    const service = rig.service(schema, { store });
    await service.start();
    const ids = Array.from({ length: 20 }, (_, i) => `r-${i}`);
    const receipts = await Promise.all(ids.slice(0, 10).map((id) => service.append(note(id))));
    const batch = await service.appendBatch(ids.slice(10).map((id) => note(id)));
    expect(batch.captureIds).toEqual(ids.slice(10));
    await Promise.all([...receipts, batch].map((receipt) => receipt.durable()));
    expect(await service.flush(20_000)).toBe(true);
    expect(await rig.visible(schema, store)).toEqual(counts(ids));
    const status = service.status();
    expect(status).toMatchObject({
      state: "running",
      pendingIndex: 0,
      indexedRecords: 20,
      lastError: null,
      setAside: [],
    });
    expect(status.lease).toMatchObject({ state: "held" });
    await service.stop();
    expect(service.status()).toMatchObject({ state: "stopped", lease: { state: "released" } });
    await service.stop();
    expect(await service.flush(10)).toBe(false);
    await expect(service.append(note("late"))).rejects.toMatchObject({ code: "STOPPED" });
  });
});
