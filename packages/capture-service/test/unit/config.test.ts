// Goal: a configuration that cannot work is refused by name, before anything is opened. Method: one change to a good one.
import { memoryStore, type ObjectStore } from "@holdfast/object-store";
import { describe, expect, it } from "vitest";
import { createCaptureService, type CaptureServiceConfig } from "../../src/index.js";
import { settingsOf } from "../../src/settings.js";
import { notes } from "../support/spool.js";

const good: CaptureServiceConfig = {
  schema: notes,
  store: memoryStore(),
  catalog: { url: "http://127.0.0.1:8123" },
  spool: { directory: "/spool" },
};
const small = (maxObjectBytes: number): ObjectStore => {
  const store = memoryStore();
  return Object.assign(Object.create(store) as ObjectStore, {
    capabilities: { ...store.capabilities, maxObjectBytes },
  });
};
const spool = (changed: object): object => ({ spool: { directory: "/spool", ...changed } });

const refused: readonly (readonly [object, RegExp])[] = [
  [{ role: "reader" }, /role is "reader"; it must be "publisher" or "standby" or "capture-only"/],
  [{ catalog: undefined }, /catalog is missing.*"capture-only"/],
  [{ catalog: { url: "127.0.0.1:8123" } }, /catalog\.url/],
  [{ catalog: { url: "http://user:hunter2@host:8123" } }, /catalog\.url.*catalog\.password/],
  [{ catalog: { url: "http://h", password: 5 } }, /catalog\.password is a number/],
  [{ role: "capture-only" }, /catalog is given.*capture-only/],
  [{ role: "capture-only", catalog: undefined, lease: { ttlMs: 3000 } }, /lease is given/],
  [{ catalog: { url: "http://h", requestTimeoutMs: 0 } }, /catalog\.requestTimeoutMs is 0/],
  [
    { catalog: { url: "http://h", requestTimeoutMs: 6000 } },
    /catalog\.requestTimeoutMs is 6000.*lease\.publishTimeoutMs/,
  ],
  [{ lease: { ttlMs: 3000, clockSkewMs: 1201, publishTimeoutMs: 1000 } }, /lease\.clockSkewMs is 1201.*1200/],
  [{ publishIntervalMs: 1.5 }, /publishIntervalMs is 1\.5/],
  [{ releaseWhenIdleMs: -1 }, /releaseWhenIdleMs is -1/],
  [{ spool: {} }, /spool\.directory is missing/],
  [{ spool: undefined }, /spool\.directory is missing/],
  [spool({ directory: "" }), /spool\.directory is empty/],
  [spool({ maxBytes: 1000 }), /spool\.maxBytes is 1000; it must be a whole number from 262144 up/],
  [spool({ maxPackBytes: 1 }), /spool\.maxPackBytes is 1/],
  [spool({ maxBytes: 1 << 20, maxPackBytes: (1 << 19) + 1 }), /spool\.maxPackBytes is 524289.*half of spool\.maxBytes/],
  [{ ...spool({ maxPackBytes: 1 << 20 }), store: small(100_000) }, /spool\.maxPackBytes is 1048576.*100000/],
  [spool({ maxPackBytes: 1 << 20, maxRecordBytes: 2 << 20 }), /spool\.maxRecordBytes is 2097152.*spool\.maxPackBytes/],
  [spool({ maxPackRecords: 0 }), /spool\.maxPackRecords is 0/],
  [spool({ maxLingerMs: "5" }), /spool\.maxLingerMs is "5"/],
  [spool({ codec: "zip" }), /spool\.codec is "zip"; it must be "none" or "gzip"/],
  [spool({ maxbytes: 1 }), /spool\.maxbytes is not a setting; there are: .*spool\.maxBytes/],
  [{ upload: { concurrency: 65 } }, /upload\.concurrency is 65/],
  [{ reconcile: { intervalMs: null } }, /reconcile\.intervalMs is null/],
  [{ index: { packAttempts: 0 } }, /index\.packAttempts is 0/],
  [{ store: {} }, /store is missing or is no object store/],
  [{ store: { contract: 2 } }, /contract 2/],
  [{ schema: undefined }, /schema is missing/],
];

describe("a configuration that cannot work", () => {
  it.each(refused)("%o is refused by the full path of the setting", (changed, message) => {
    let error: unknown;
    try {
      createCaptureService({ ...good, ...changed });
    } catch (caught) {
      error = caught;
    }
    expect(error).toMatchObject({ code: "CONFIG_INVALID", message: expect.stringMatching(message) as string });
    expect(String(error)).not.toContain("hunter2");
  });

  it("an unknown field type is refused when the schema is declared in the configuration", () => {
    const schema = { name: "bad", version: 1, fields: { at: "Decimal(9,2)" }, orderBy: [] };
    const config = { ...good, schema } as unknown as CaptureServiceConfig;
    expect(() => createCaptureService(config)).toThrow(/SCHEMA_INVALID.*at.*Decimal/);
  });
});

describe("defaults", () => {
  it("pass every rule, and shrink with the store and the spool", () => {
    expect(settingsOf(good)).toMatchObject({
      role: "publisher",
      publishIntervalMs: 1000,
      releaseWhenIdleMs: null,
      spool: { maxPackBytes: 64 << 20, maxLingerMs: 1000, codec: "none", admissionTimeoutMs: 2000 },
      upload: { concurrency: 4 },
      reconcile: { onStart: true, intervalMs: 30_000, fullIntervalMs: 3_600_000 },
    });
    expect(settingsOf({ ...good, store: small(1 << 20) }).spool.maxPackBytes).toBe(1 << 20);
    expect(settingsOf({ ...good, spool: { directory: "s", maxBytes: 1 << 20 } }).spool.maxPackBytes).toBe(1 << 18);
  });

  it("a service that has not started says so, in JSON, and refuses to work", async () => {
    const service = createCaptureService(good);
    expect(JSON.parse(JSON.stringify(service.status()))).toEqual(service.status());
    expect(service.status()).toMatchObject({ state: "new", lease: null, spool: null });
    const record = {
      scope: { tenant: "t", session: "s" },
      fields: { kind: "k", step: 1n, tags: {}, shape: [] },
      payload: new Uint8Array(),
    };
    await expect(service.append(record as never)).rejects.toMatchObject({ code: "NOT_STARTED" });
    await expect(service.flush(10)).rejects.toMatchObject({ code: "NOT_STARTED" });
    await expect(service.flush(-1)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
    await service.stop();
    await expect(service.start()).rejects.toMatchObject({ code: "STOPPED" });
  });
});
