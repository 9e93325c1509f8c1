// Goal: a bound Storage looks like the vendor's, and all that is reached from it is bound. Method: the real Storage.
import { TransferManager } from "@google-cloud/storage";
import { expect, it } from "vitest";
import { bind } from "@holdfast/deadline-http/gcs";
import { failure } from "../support/clickhouse.js";
import { boundStorage, gcsServer, plainStorage, says, type Vendor } from "../support/gcs.js";
import { allEndByBound } from "../support/virtual-bound.js";

export function storage(vendor: Vendor): void {
  const file = (url: string, name = "f") => boundStorage(vendor, url).bucket("b").file(name);
  it("the caller's Storage and its objects stay as they are, and work unbound", async () => {
    const server = await gcsServer(says.error(503), says.json({ name: "f" }));
    const plain = plainStorage(vendor, server.url);
    const state = () => Object.assign({}, plain, { retryOptions: { ...plain.retryOptions } });
    const before = state();
    const plainFile = plain.bucket("b").file("f");
    const bound = bind(plain, { maxAttempts: 1 });
    const failed = await failure(() => bound.bucket("b").file("f").save("x", { validation: false }));
    expect(failed).toMatchObject({ code: "REQUEST_FAILED", httpStatus: 503 });
    expect(state()).toEqual(before);
    expect(plainFile.storage).toBe(plain);
    expect((await plainFile.getMetadata())[0]).toEqual({ name: "f" });
    // Binding a bound one binds the original.
    expect(Object.getPrototypeOf(bind(bound))).toBe(plain);
  });

  it("everything reached from it is bound, and is an instance of the vendor's classes", async () => {
    const server = await gcsServer(says.json({ items: [{ id: "x", name: "x", metadata: {} }] }));
    const storage = boundStorage(vendor, server.url);
    const bucket = storage.bucket("b");
    const streamed = (await bucket.getFilesStream().toArray()) as unknown[];
    const classes = vendor.Storage as unknown as { Bucket: never; File: never };
    for (const one of [bucket.file("f"), ...(await bucket.getFiles())[0], ...streamed]) {
      expect(one).toBeInstanceOf(classes.File);
      expect((one as object).constructor.name).toBe("File");
      expect((one as ReturnType<typeof bucket.file>).bucket).toBe(bucket);
      expect((one as ReturnType<typeof bucket.file>).storage).toBe(storage);
    }
    const streamedBuckets = (await storage.getBucketsStream().toArray()) as unknown[];
    const buckets = [bucket, ...(await storage.getBuckets())[0], ...streamedBuckets];
    for (const one of buckets) {
      expect(one).toBeInstanceOf(classes.Bucket);
      expect((one as typeof bucket).storage).toBe(storage);
    }
    const silent = await gcsServer(says.silent);
    const quiet = boundStorage(vendor, silent.url);
    const [b, f] = [quiet.bucket("b"), quiet.bucket("b").file("f")];
    const calls: [string, () => Promise<unknown>][] = [
      ["file.acl", () => f.acl.add({ entity: "allUsers", role: "READER" })],
      ["bucket.acl", () => b.acl.default.get()],
      ["bucket.iam", () => b.iam.getPolicy()],
      ["notification", () => b.notification("n").exists()],
      ["hmacKey", () => quiet.hmacKey("k").getMetadata()],
      ["channel", () => quiet.channel("c", "r").stop()],
      ["isPublic", () => f.isPublic()],
      ["createResumableUpload", () => f.createResumableUpload()],
      ["createBucket", () => quiet.createBucket("new")],
      ["getServiceAccount", () => quiet.getServiceAccount()],
      ["combine", () => b.combine(["x", "y"], "z")],
      ["getFilesStream", () => b.getFilesStream().toArray()],
    ];
    const all = await allEndByBound(
      calls.map(([, call]) => call),
      () => silent.received.length === calls.length,
    );
    for (const [n, { code, outcome }] of all.entries()) {
      expect([calls[n]![0], code, outcome]).toEqual([calls[n]![0], "DEADLINE_EXCEEDED", "unknown"]);
    }
  });

  it("what the vendor makes of a status it still makes: exists, autoCreate, ignoreNotFound, isPublic", async () => {
    const server = await gcsServer(says.error(404));
    const bucket = boundStorage(vendor, server.url).bucket("b");
    expect(await bucket.file("f").exists()).toEqual([false]);
    expect(await bucket.exists()).toEqual([false]);
    expect(await bucket.notification("n").exists()).toEqual([false]);
    await bucket.file("f").delete({ ignoreNotFound: true });
    const denied = await gcsServer(says.error(403));
    expect(await file(denied.url).isPublic()).toEqual([false]);
    const made = await gcsServer(says.error(404), says.json({ id: "b", name: "b" }));
    await boundStorage(vendor, made.url).bucket("b").get({ autoCreate: true });
    expect(made.received.map((one) => one.method)).toEqual(["GET", "POST"]);
  });

  it("the callback form has the same errors, and its callback is no part of the call", async () => {
    const server = await gcsServer(says.json({ name: "f" }), says.error(404));
    const one = file(server.url);
    const [error] = await new Promise<unknown[]>((resolve) => {
      one.setMetadata({ metadata: { a: "b" } }, {}, () => {
        void one.getMetadata((...given: unknown[]) => resolve(given));
      });
    });
    // Of the read alone: the write before it, in whose callback it was made, does not count.
    expect(error).toMatchObject({ code: "REQUEST_FAILED", outcome: "refused", httpStatus: 404 });
  });

  it("what cannot be bound is refused, and says what to use instead", async () => {
    const server = await gcsServer(says.silent);
    const bucket = boundStorage(vendor, server.url).bucket("b");
    const one = bucket.file("f");
    for (const options of [{ uri: "http://x/" }, { offset: 5 }, { isPartialUpload: true }]) {
      expect(() => one.createWriteStream({ ...options, resumeCRC32C: "x" })).toThrow(/CONFIG_INVALID.*not bound/);
    }
    const parts = await failure(() => new TransferManager(bucket).uploadFileInChunks(import.meta.filename));
    expect(parts).toMatchObject({ message: expect.stringMatching(/file\.save\(\)/) as string });
    expect(server.received).toHaveLength(0);
    expect(() => bind({} as never)).toThrow(TypeError);
    expect(() => boundStorage(vendor, server.url, { maxAttempts: 0 })).toThrow(/CONFIG_INVALID.*maxAttempts/);
    expect(() => boundStorage(vendor, server.url, { tokenTimeoutMs: NaN })).toThrow(/CONFIG_INVALID.*tokenTimeoutMs/);
  });
}
