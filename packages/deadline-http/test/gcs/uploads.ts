// Goal: an upload stores the bytes that it was given or says so, and a call of several requests has the outcome of the
// gravest. Method: the real Storage against a server that keeps objects.
import { createHash } from "node:crypto";
import { once } from "node:events";
import { connect as connectTcp, type Socket } from "node:net";
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { describe, expect, it, onTestFinished } from "vitest";
import { within } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { patient, until } from "@holdfast-private/tests-machine";
import { failure } from "../support/clickhouse.js";
import {
  boundStorage,
  connectsBy,
  gcsServer,
  objects,
  refusing,
  says,
  type Answering,
  type Received,
  type Vendor,
} from "../support/gcs.js";
import { endsByBound, turns } from "../support/virtual-bound.js";

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

export function uploads(vendor: Vendor): void {
  const file = (url: string, name = "f") => boundStorage(vendor, url).bucket("b").file(name);

  describe("B28 uploads", () => {
    it("B28 DL-27 (a) a body that is taken and never answered: unknown, by the deadline", async () => {
      for (const resumable of [false, true]) {
        const silent = await gcsServer(resumable ? either(isPut, says.silent, objects().answering) : says.silent);
        const failed = await endsByBound(
          () => file(silent.url).save("x", { ...unchecked, resumable }),
          () => silent.received.length === (resumable ? 2 : 1),
        );
        expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown", timedOut: true });
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
      patient(server);
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
      onTestFinished(() => server.close().closeAllConnections());
      const { port } = server.address() as { port: number };
      const failed = await endsByBound(
        () => file(`http://127.0.0.1:${port}`).save(data, unchecked),
        () => half > data.length / 2,
      );
      expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown", timedOut: true });
      expect(half).toBeLessThan(data.length);
      puts[0]!.removeAllListeners("data").resume();
      await until("its socket goes", () => puts[0]!.destroyed);
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
          await one.save(content, { ...unchecked, chunkSize: quarter });
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
      const upload = async (resumable: boolean): Promise<void> => {
        const clock = new VirtualClock();
        let drop: (() => void) | null = null;
        async function* slowly(): AsyncGenerator<Buffer> {
          for (let n = 0; n < 12; n++) {
            await new Promise<void>((resolve) => (drop = resolve));
            yield Buffer.from("drop ");
          }
        }
        const one = boundStorage(vendor, server.url, { clock }).bucket("b").file(`s${resumable}`);
        const call = within(600_000, () => one.save(slowly(), { ...unchecked, resumable }), { clock });
        for (let n = 0; n < 12; n++) {
          await until("it is to give the next part", () => drop !== null);
          await clock.advance(45_000);
          const next = drop!;
          drop = null;
          next();
        }
        await call;
        expect(stored.get(`s${resumable}`)?.toString()).toBe("drop ".repeat(12));
      };
      await Promise.all([upload(false), upload(true)]);
    });

    it("B28 what is kept in part goes in front of the next chunk: before the last none is smaller than GCS takes", async () => {
      const refusal = says.error(400);
      // As GCS: it keeps whole quarters only, and takes none below that but the last.
      const { answering, stored } = objects((put) =>
        put.headers["content-range"]?.endsWith("/*")
          ? Math.floor(put.body.length / quarter) * quarter
          : put.body.length,
      );
      const small = (put: Received): boolean =>
        isPut(put) && put.body.length < quarter && put.headers["content-range"]?.endsWith("/*") === true;
      const server = await gcsServer(either(small, refusal, answering));
      const data = bytesOf(1_000_000);
      await file(server.url).save(data, { ...unchecked, chunkSize: quarter + 40_000 });
      expect(stored.get("f")?.equals(data)).toBe(true);
    });

    it("B28 60,000 small writes do not hold up the event loop", async () => {
      const { answering, stored } = objects();
      const stream = file((await gcsServer(answering)).url).createWriteStream(unchecked);
      const data = bytesOf(60_000 * 16);
      const processorMs = (since?: NodeJS.CpuUsage): number => {
        const { user, system } = process.cpuUsage(since);
        return (user + system) / 1e3;
      };
      const begun = process.cpuUsage();
      for (let n = 0; n < 60_000; n++) {
        if (!stream.write(data.subarray(16 * n, 16 * n + 16))) await once(stream, "drain");
      }
      const writingMs = processorMs(begun);
      const written = process.cpuUsage();
      stream.end();
      await once(stream, "finish");
      // A quarter of what writing took, whatever the machine; to put together a piece for each write took eight times that, in one stretch.
      expect(processorMs(written)).toBeLessThan(3 * writingMs);
      expect(stored.get("f")?.equals(data)).toBe(true);
    });

    it("a chunkSize of 0 is none, as to the vendor; one that cannot work is refused", async () => {
      const { answering, stored } = objects();
      const one = file((await gcsServer(answering)).url);
      await one.save("content", { ...unchecked, chunkSize: 0 });
      expect(stored.get("f")?.toString()).toBe("content");
      for (const chunkSize of [-1, 0.5, Infinity]) {
        expect(() => one.createWriteStream({ chunkSize })).toThrow(/CONFIG_INVALID.*chunkSize is /);
      }
    });

    it("a writer that gives up between two attempts is not tried again with half of it, and no socket stays", async () => {
      const server = await gcsServer(objects().answering);
      const clock = new VirtualClock();
      const storage = boundStorage(vendor, server.url, { clock });
      let attempts = 0;
      const connect = (): Socket => ((attempts += 1) < 2 ? refusing() : connectTcp(server.port, "127.0.0.1"));
      connectsBy(storage, { connect });
      const stream = storage
        .bucket("b")
        .file("f")
        .createWriteStream({ ...unchecked, resumable: false });
      const told = once(stream, "error");
      stream.write("half");
      await until("it pauses", () => attempts === 1 && clock.pending === 1);
      stream.destroy(new Error("changed my mind"));
      expect(await told).toMatchObject([{ message: expect.stringContaining("changed my mind") as string }]);
      // The pause is over; whatever was begun after it ends by itself.
      await clock.advance(1_000);
      await turns();
      await until("no socket stays", () => server.connections.every((socket) => socket.destroyed));
      expect(server.received).toHaveLength(0);
    });

    it("a writer that gives up in the middle ends the request, and what it wrote is not completed", async () => {
      const { answering, stored } = objects();
      const server = await gcsServer(answering);
      for (const resumable of [false, true]) {
        const stream = file(server.url).createWriteStream({ ...unchecked, resumable, chunkSize: quarter });
        stream.on("error", () => undefined);
        stream.write(bytesOf(quarter + 5));
        const before = server.bytes();
        await until("some of it is there", () => server.bytes() > before + 1_000);
        stream.destroy(new Error("changed my mind"));
        await until("it has ended", () => stream.closed);
        // One request has all of it; of a session a connection may be left that has nothing to do.
        if (!resumable) await until("so has its request", () => server.connections[0]!.destroyed);
      }
      await turns(20);
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
}
