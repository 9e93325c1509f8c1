// Goal: options that cannot work are refused when the store is made, by name, with the value, and never with a secret in the words.
import { Storage } from "@google-cloud/storage";
import { afterEach, describe, expect, it, vi } from "vitest";
import { gcsStore, type ConnectionOptions, type GcsStoreOptions } from "@holdfast/storage-gcs";

const MiB = 2 ** 20;
const at = (o: Partial<ConnectionOptions>): GcsStoreOptions => ({ bucket: "bucket", ...o, client: undefined });

afterEach(() => vi.unstubAllEnvs());

describe("options", () => {
  it.each<[string, string, Partial<ConnectionOptions>]>([
    ["bucket", '""', { bucket: "" }],
    ["bucket", '"a/b"', { bucket: "a/b" }],
    ["bucket", '"Bucket"', { bucket: "Bucket" }],
    ["bucket", "undefined", { bucket: undefined as unknown as string }],
    ["apiEndpoint", "URL", { apiEndpoint: "https://" }],
    ["apiEndpoint", "credentials", { apiEndpoint: "https://key:hidden@gcs.example.com" }],
    ["apiEndpoint", "?", { apiEndpoint: "https://gcs.example.com/?token=hidden" }],
    ["apiEndpoint", "allowHttp", { apiEndpoint: "http://gcs.example.com" }],
    ["resumable.thresholdBytes", "-1", { resumable: { thresholdBytes: -1 } }],
    ["resumable.thresholdBytes", "1.5", { resumable: { thresholdBytes: 1.5 } }],
    ["resumable.chunkBytes", "262144", { resumable: { chunkBytes: 1000 } }],
    ["resumable.chunkBytes", "256 KiB", { resumable: { chunkBytes: 0 } }],
    ["kmsKeyName", '"key"', { kmsKeyName: "key" }],
    ["storageClass", '"COOL"', { storageClass: "COOL" as "ARCHIVE" }],
    ["userProject", '"a b"', { userProject: "a b" }],
    ["attempts", "0", { attempts: 0 }],
    ["tokenTimeoutMs", "-5", { tokenTimeoutMs: -5 }],
    ["tokenTimeoutMs", "NaN", { tokenTimeoutMs: NaN }],
    ["storeId", "empty", { storeId: "" }],
    ["kmsKey", "kmsKeyName", { kmsKey: "projects/p" } as Partial<ConnectionOptions>],
  ])("%s is refused by name, with %s", (name, value, o) => {
    const message = expect.stringContaining(name) as string;
    expect(() => gcsStore(at(o))).toThrow(expect.objectContaining({ code: "CONFIG_INVALID", message }) as Error);
    expect(() => gcsStore(at(o))).toThrow(value);
    expect(() => gcsStore(at(o))).not.toThrow(/hidden/);
  });

  it("a client needs a storeId, and takes nothing that it has itself", () => {
    const client = new Storage({ projectId: "p" });
    expect(() => gcsStore({ bucket: "bucket", client } as unknown as GcsStoreOptions)).toThrow("storeId");
    expect(gcsStore({ bucket: "bucket", client, storeId: "mine" }).storeId).toBe("mine");
    const twice = { bucket: "bucket", client, storeId: "mine", apiEndpoint: "https://x" } as unknown as GcsStoreOptions;
    expect(() => gcsStore(twice)).toThrow("apiEndpoint");
    expect(() => gcsStore({ bucket: "bucket", client: Object.create(null) as Storage, storeId: "mine" })).toThrow();
  });

  it("a client that speaks http is refused unless it is allowed", () => {
    const client = new Storage({ projectId: "p", apiEndpoint: "http://127.0.0.1:1" });
    const options = { bucket: "bucket", client, storeId: "mine" };
    expect(() => gcsStore(options)).toThrow("allowHttp");
    expect(gcsStore({ ...options, allowHttp: true }).storeId).toBe("mine");
  });

  it("the default storeId is the place", () => {
    expect(gcsStore(at({})).storeId).toBe("gcs:bucket");
    expect(gcsStore(at({ keyPrefix: "t/" })).storeId).toBe("gcs:bucket/t/");
    const apiEndpoint = "https://gcs.example.com:9000/";
    expect(gcsStore(at({ apiEndpoint, keyPrefix: "t/" })).storeId).toBe("gcs:gcs.example.com:9000/bucket/t/");
  });

  it("STORAGE_EMULATOR_HOST is the endpoint, and an error about it names it", () => {
    vi.stubEnv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:9199");
    expect(() => gcsStore(at({}))).toThrow("STORAGE_EMULATOR_HOST");
    expect(gcsStore(at({ allowHttp: true })).storeId).toBe("gcs:127.0.0.1:9199/bucket");
  });

  it("all of the contract is declared, and a prefix takes its bytes from the key", () => {
    expect(gcsStore(at({ keyPrefix: "é/" })).capabilities).toEqual({
      create: true,
      ifMatch: true,
      metadata: true,
      maxObjectBytes: 5 * 2 ** 40,
      maxKeyBytes: 1021,
    });
    expect(() => gcsStore(at({ resumable: { thresholdBytes: 0, chunkBytes: MiB / 4 } }))).not.toThrow();
  });
});
