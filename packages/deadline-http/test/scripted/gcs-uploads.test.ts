// Goal: an upload stores the bytes that it was given or says so; a call of several requests has the outcome of the
// gravest; and a bound Storage looks like the vendor's. Method: the real Storage against a server that keeps objects.
import { createHash } from "node:crypto";
import { connect as connectTcp, type Socket } from "node:net";
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { TransferManager } from "@google-cloud/storage";
import { beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { systemClock, within } from "@holdfast/deadline-http";
import { bind } from "@holdfast/deadline-http/gcs";
import { failure } from "../support/clickhouse.js";
import {
  boundStorage,
  connectsBy,
  gcsServer,
  objects,
  plainStorage,
  refusing,
  says,
  vendors,
  warmUp,
  type Answering,
  type Received,
} from "../support/gcs.js";

const unchecked = { validation: false } as const;
const quarter = 256 * 1024;
/** No two stretches of it are alike. */
const bytesOf = (size: number): Buffer => createHash("shake256", { outputLength: size }).update("bytes").digest();

/** Two answers: of requests that `chosen` picks, and of all others. */
const either =
  (chosen: (request: Received) => boolean, one: Answering, other: Answering): Answering =>
  (response, request) =>
    (chosen(request) ? one : other)(response, request);

const isPut = (request: Received): boolean => request.method === "PUT";

for (const vendor of vendors) {
  describe.skipIf(vendor.Storage === null)(vendor.name, () => {
    beforeAll(() => warmUp(vendor));

    const file = (url: string, name = "f") => boundStorage(vendor, url).bucket("b").file(name);

    describe("B28 uploads", () => {
      it("B28 DL-27 (a) a body that is taken and never answered: unknown, by the deadline", async () => {
        for (const resumable of [false, true]) {
          const silent = await gcsServer(resumable ? either(isPut, says.silent, objects().answering) : says.silent);
          const failed = await failure(() =>
            within(300, () => file(silent.url).save("x", { ...unchecked, resumable })),
          );
          expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown", timedOut: true });
          expect(failed.tookMs).toBeLessThan(400);
          expect(silent.received).toHaveLength(resumable ? 2 : 1);
        }
      });

      it("B28 DL-27 (b) a data PUT that stalls half-way: unknown, by the deadline, and its socket goes", async () => {
        const data = bytesOf(4 * 1024 * 1024);
        const puts: IncomingMessage[] = [];
        let half = 0;
        const server = createHttpServer((request, response: ServerResponse) => {
          if (request.method === "POST") {
            response.writeHead(200, { location: `http://${request.headers.host}/session` }).end();
            return;
          }
          puts.push(request);
          request.on("error", () => undefined);
          request.on("data", (chunk: Buffer) => {
            half += chunk.length;
            if (half > data.length / 2) request.pause();
          });
        });
        await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
        onTestFinished(() => server.close().closeAllConnections());
        const { port } = server.address() as { port: number };
        const failed = await failure(() => within(400, () => file(`http://127.0.0.1:${port}`).save(data, unchecked)));
        expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown", timedOut: true });
        expect(failed.tookMs).toBeLessThan(500);
        expect(half).toBeLessThan(data.length);
        puts[0]!.removeAllListeners("data").resume();
        while (!puts[0]!.destroyed) await systemClock.sleep(5);
      });

      it("B28 DL-27 (c) a server that keeps less than was sent gets the rest again: the bytes are the same", async () => {
        const sizes = [0, 1, 1000, quarter, quarter + 1, 3 * quarter, 3 * quarter + 77];
        for (const size of sizes) {
          const data = bytesOf(size);
          // Every other put is kept in part, once not at all.
          const { answering, stored } = objects((put, number) =>
            number === 1 ? 0 : number % 2 === 0 ? Math.floor(put.body.length / 2) : put.body.length,
          );
          const server = await gcsServer(answering);
          const pieces = Readable.from([data.subarray(0, 10), data.subarray(10, size - 5), data.subarray(size - 5)]);
          const give = [data, size > 20 ? pieces : data];
          for (const [n, content] of give.entries()) {
            const one = file(server.url, `n${n}`);
            await within(5_000, () => one.save(content, { ...unchecked, chunkSize: quarter }));
            expect(stored.get(`n${n}`)?.equals(data)).toBe(true);
            expect(one.metadata).toMatchObject({ size: String(size) });
          }
        }
      });

      it("B28 (c) a server that keeps nothing, or says that it keeps what it cannot, fails the upload as unknown", async () => {
        const nothing = await gcsServer(objects(() => 0).answering);
        const stuck = await failure(() => file(nothing.url).save("x", unchecked));
        expect(stuck).toMatchObject({ code: "REQUEST_FAILED", outcome: "unknown" });
        expect(nothing.received).toHaveLength(4);
        for (const range of ["bytes=0-9000", "bytes=5-9", "nonsense"]) {
          const mad: Answering = (response) => void response.writeHead(308, { range }).end();
          const server = await gcsServer(either(isPut, mad, objects().answering));
          const failed = await failure(() => file(server.url).save("content", unchecked));
          expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "unknown" });
          expect(server.received).toHaveLength(2);
        }
      });

      it("B28 DL-27 (e) a slow upload that moves is let go on, longer than any single wait", async () => {
        const { answering, stored } = objects();
        const server = await gcsServer(answering);
        async function* slowly(): AsyncGenerator<Buffer> {
          for (let n = 0; n < 12; n++) {
            await systemClock.sleep(60);
            yield Buffer.from("drop ");
          }
        }
        for (const resumable of [false, true]) {
          await within(3_000, () => file(server.url, `s${resumable}`).save(slowly(), { ...unchecked, resumable }));
          expect(stored.get(`s${resumable}`)?.toString()).toBe("drop ".repeat(12));
        }
      });

      it("a writer that gives up in the middle ends the request, and what it wrote is not completed", async () => {
        const { answering, stored } = objects();
        const server = await gcsServer(answering);
        for (const resumable of [false, true]) {
          const stream = file(server.url).createWriteStream({ ...unchecked, resumable, chunkSize: quarter });
          stream.on("error", () => undefined);
          stream.write(bytesOf(quarter + 5));
          while (server.bytes() < 1_000) await systemClock.sleep(2);
          stream.destroy(new Error("changed my mind"));
          while (!stream.closed) await systemClock.sleep(2);
        }
        const calm = await failure(() => within(150, () => new Promise(() => undefined)));
        expect(calm.code).toBe("DEADLINE_EXCEEDED");
        expect(stored.size).toBe(0);
      });
    });

    describe("a call of several requests has the outcome of the gravest", () => {
      it("DL-08 DL-27 what was moved half: the copy was made, so a refused delete leaves it unknown", async () => {
        const server = await gcsServer(
          either((one) => one.method === "DELETE", says.error(403), says.json({ name: "g" })),
        );
        const failed = await failure(() => file(server.url).move("g"));
        expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "unknown", httpStatus: 403 });
        expect(server.received.map((one) => one.method)).toEqual(["POST", "DELETE"]);
      });

      it("DL-08 DL-27 a session that was started is no effect: a refused PUT is refused, one never sent is refused too", async () => {
        const server = await gcsServer(either(isPut, says.error(403), objects().answering));
        const put = await failure(() => file(server.url).save("x", unchecked));
        expect(put).toMatchObject({ code: "REQUEST_FAILED", outcome: "refused", httpStatus: 403 });

        const closing = await gcsServer((response, request) => {
          response.shouldKeepAlive = false;
          objects().answering(response, request);
        });
        const storage = boundStorage(vendor, closing.url, { maxAttempts: 1 });
        let connections = 0;
        const connect = (): Socket => ((connections += 1) > 1 ? refusing() : connectTcp(closing.port, "127.0.0.1"));
        connectsBy(storage, { connect });
        const unsent = await failure(() => storage.bucket("b").file("f").save("x", unchecked));
        expect(unsent).toMatchObject({ code: "REQUEST_FAILED", outcome: "refused" });
        expect(closing.received.map((one) => one.method)).toEqual(["POST"]);
      });

      it("DL-08 DL-27 many deletes: one error for all, unknown when one was done", async () => {
        const listed = says.json({ items: [{ name: "a" }, { name: "b" }, { name: "c" }] });
        const remove = either((one) => one.url.pathname.endsWith("/b"), says.error(403), says.json({}));
        const server = await gcsServer(either((one) => one.method === "DELETE", remove, listed));
        const bucket = boundStorage(vendor, server.url).bucket("b");
        const failed = await failure(() => bucket.deleteFiles({ force: true }));
        expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "unknown" });
        expect(failed.message).toContain("1 requests failed");
      });
    });

    describe("the same type", () => {
      it("the caller's Storage and its objects stay as they are, and work unbound", async () => {
        const server = await gcsServer(says.error(503), says.json({ name: "f" }));
        const plain = plainStorage(vendor, server.url);
        const state = () => Object.assign({}, plain, { retryOptions: { ...plain.retryOptions } });
        const before = state();
        const plainFile = plain.bucket("b").file("f");
        const bound = bind(plain, { maxAttempts: 1 });
        const failed = await failure(() => bound.bucket("b").file("f").save("x", unchecked));
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
        const failed = calls.map(async ([name, call]) => [name, await failure(() => within(250, call))] as const);
        for (const [name, error] of await Promise.all(failed)) {
          expect([name, error.code, error.outcome]).toEqual([name, "DEADLINE_EXCEEDED", "unknown"]);
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
        expect(() => boundStorage(vendor, server.url, { tokenTimeoutMs: NaN })).toThrow(
          /CONFIG_INVALID.*tokenTimeoutMs/,
        );
      });
    });
  });
}
