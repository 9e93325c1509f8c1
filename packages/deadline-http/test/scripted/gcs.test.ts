// Goal: @google-cloud/storage 7 and 8 keep the same bounds, outcomes and retry rules as every other client here. Method:
// the real Storage against servers of the test's own; what a server received is the oracle for the outcome.
import { connect, type Socket } from "node:net";
import { PassThrough, Readable } from "node:stream";
import { finished } from "node:stream/promises";
import type { Storage } from "@google-cloud/storage";
import { beforeAll, describe, expect, it } from "vitest";
import { systemClock, within } from "@holdfast/deadline-http";
import { failure } from "../support/clickhouse.js";
import {
  boundStorage,
  connecting,
  connectsBy,
  gcsServer,
  objects,
  refusing,
  says,
  tcpServer,
  vendors,
  warmUp,
  type Answering,
} from "../support/gcs.js";

const boundMs = 300;
const bounded = (call: () => Promise<unknown>, ms = boundMs) => failure(() => within(ms, call, { name: "the bound" }));
/** The bound, and the tolerance that the requirement gives. */
const inTime = (tookMs: number, ms = boundMs): void => {
  expect(tookMs).toBeLessThan(ms + 100);
};

const file = (storage: Storage, name = "f") => storage.bucket("b").file(name);
const read = (storage: Storage): Promise<unknown> => file(storage).getMetadata();
const download = (storage: Storage): Promise<unknown> => file(storage).download({ validation: false });
const unchecked = { validation: false } as const;
const save = (storage: Storage): Promise<unknown> => file(storage).save("content", unchecked);
const saveAtOnce = (storage: Storage): Promise<unknown> =>
  file(storage).save("content", { ...unchecked, resumable: false });
const remove = (storage: Storage): Promise<unknown> => file(storage).delete();

const calls = [
  ["getMetadata", read],
  ["download", download],
  ["save, resumable", save],
  ["save, at once", saveAtOnce],
  ["delete", remove],
] as const;

for (const vendor of vendors) {
  describe.skipIf(vendor.Storage === null)(vendor.name, () => {
    const bound = (url: string, o?: Parameters<typeof boundStorage>[2], config?: Parameters<typeof boundStorage>[3]) =>
      boundStorage(vendor, url, o, config);

    beforeAll(() => warmUp(vendor));

    describe("DL-03 DL-27 a phase that hangs ends by the bound", () => {
      it.each(calls)("DL-03 DL-07 DL-27 waiting for a socket: not sent: %s", async (_name, call) => {
        const server = await gcsServer(says.silent);
        const storage = bound(server.url);
        connectsBy(storage, { maxSockets: 1 });
        const first = failure(() => within(2_000, () => remove(storage)));
        while (server.received.length < 1) await systemClock.sleep(2);
        const queued = await bounded(() => call(storage));
        inTime(queued.tookMs);
        expect(queued).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent", timedOut: true });
        expect(server.received).toHaveLength(1);
        server.connections[0]!.destroy();
        expect(await first).toMatchObject({ outcome: "unknown" });
      });

      it.each(calls)("DL-03 DL-07 DL-27 looking up the name: not sent: %s", async (_name, call) => {
        const storage = bound("http://localhost:9");
        connectsBy(storage, { lookup: () => undefined });
        const failed = await bounded(() => call(storage));
        inTime(failed.tookMs);
        expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
      });

      it.each(calls)("DL-03 DL-07 DL-27 connecting: not sent: %s", async (_name, call) => {
        const storage = bound("http://127.0.0.1:9");
        connectsBy(storage, { connect: connecting });
        const failed = await bounded(() => call(storage));
        inTime(failed.tookMs);
        expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
      });

      it.each(calls)("DL-03 DL-07 DL-27 TLS that is not finished: not sent: %s", async (_name, call) => {
        const deaf = await tcpServer();
        const failed = await bounded(() => call(bound(`https://127.0.0.1:${deaf.port}`)));
        inTime(failed.tookMs);
        expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
        // The client's hello came; of the request nothing could.
        expect(deaf.bytes()).toBeGreaterThan(0);
      });

      it.each(calls)("DL-03 DL-11 DL-27 headers: unknown, and not again: %s", async (_name, call) => {
        const server = await gcsServer(says.silent);
        const failed = await bounded(() => call(bound(server.url)));
        inTime(failed.tookMs);
        expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown", timedOut: true });
        expect(failed.message).toContain("the bound of 300 ms ran out");
        expect(server.received).toHaveLength(1);
      });

      it.each([
        ["stalled", says.stalled],
        ["trickling", says.trickle],
      ])("DL-03 DL-27 B6 a body that is %s, and its socket goes", async (_name, answering) => {
        const server = await gcsServer(answering);
        const stream = async (storage: Storage): Promise<void> => {
          for await (const chunk of file(storage).createReadStream(unchecked)) expect(chunk).toBeInstanceOf(Buffer);
        };
        const ranged = (storage: Storage) => file(storage).download({ start: 0, end: 99 });
        for (const call of [read, download, ranged, stream, remove, saveAtOnce]) {
          const failed = await bounded(() => call(bound(server.url)));
          inTime(failed.tookMs);
          expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown", timedOut: true });
        }
        while (!server.connections.every((socket) => socket.destroyed)) await systemClock.sleep(5);
        expect(server.received).toHaveLength(6);
      });
    });

    describe("DL-05 DL-27 attempts and pauses", () => {
      it("DL-05 DL-27 none starts past the deadline, and the error says why there was no further one", async () => {
        const server = await gcsServer((response, request) =>
          setTimeout(() => says.error(503)(response, request), 250),
        );
        const failed = await bounded(() => read(bound(server.url)), 500);
        inTime(failed.tookMs, 500);
        expect(failed).toMatchObject({ outcome: expect.stringMatching(/refused|unknown/) as string });
        expect(server.received.length).toBeLessThan(3);
      });

      it("DL-05 DL-27 no pause that would end past it is begun", async () => {
        const server = await gcsServer(says.error(503));
        const failed = await bounded(() => read(bound(server.url)), 80);
        expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "refused", httpStatus: 503 });
        expect(failed.message).toMatch(/not tried again: \d+ ms left, the next pause is 100 ms \(the bound of 80 ms\)/);
        expect(server.received).toHaveLength(1);
      });
    });

    describe("DL-12 DL-27 what is repeated", () => {
      const once: [string, Answering, number, (storage: Storage) => Promise<unknown>, number, string][] = [
        ["a read after 503", says.error(503), 503, read, 3, "refused"],
        ["a read after 429", says.error(429), 429, read, 3, "refused"],
        ["a download after 503", says.error(503), 503, download, 3, "refused"],
        ["a read after 403 for its rate", says.error(403, "rateLimitExceeded"), 403, read, 3, "refused"],
        ["no read after 403", says.error(403), 403, read, 1, "refused"],
        ["no read after 404", says.error(404), 404, read, 1, "refused"],
        ["no download after 404", says.error(404), 404, download, 1, "refused"],
        ["no read after 408", says.error(408), 408, read, 1, "unknown"],
        ["no write after 503", says.error(503), 503, remove, 1, "unknown"],
        ["no write after 408", says.error(408), 408, remove, 1, "unknown"],
        ["no write after 410", says.error(410), 410, saveAtOnce, 1, "unknown"],
        [
          "no write after an error in a 200",
          says.json({ error: { code: 403, message: "late" } }),
          200,
          remove,
          1,
          "unknown",
        ],
        ["the start of an upload session after 503", says.error(503), 503, save, 3, "refused"],
      ];
      it.each(once)("DL-06 DL-12 DL-27 %s", async (_name, answering, httpStatus, call, count, outcome) => {
        const server = await gcsServer(answering);
        const failed = await failure(() => within(5_000, () => call(bound(server.url))));
        expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome, httpStatus, timedOut: httpStatus === 408 });
        expect(server.received).toHaveLength(count);
      });

      it.each([304, 400, 401, 403, 404, 405, 409, 411, 412, 413, 416, 429])(
        "DL-09 DL-27 a write answered %d was refused before execution, and is not repeated",
        async (status) => {
          const server = await gcsServer(says.error(status));
          for (const call of [remove, saveAtOnce]) {
            const failed = await failure(() => call(bound(server.url)));
            expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "refused", httpStatus: status });
          }
          expect(server.received).toHaveLength(2);
        },
      );

      it("DL-12 DL-27 a broken read goes again, in its body too; a broken write does not", async () => {
        for (const broken of [says.cut, says.ended]) {
          const twice = await gcsServer(says.reset, broken, says.json({ name: "f" }));
          expect(await within(5_000, () => read(bound(twice.url)))).toMatchObject([{ name: "f" }, {}]);
          expect(twice.received).toHaveLength(3);
        }
        const body = await gcsServer(says.cut, says.bytes("hello"));
        expect(String(await download(bound(body.url)))).toBe("hello");
        for (const call of [remove, saveAtOnce]) {
          for (const answering of [says.reset, says.cut, says.ended]) {
            const server = await gcsServer(answering);
            const failed = await failure(() => within(2_000, () => call(bound(server.url))));
            expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "unknown", timedOut: false });
            expect(server.received).toHaveLength(1);
          }
        }
      });

      it("DL-11 DL-27 what was never sent goes again, a stream that can be read once included", async () => {
        const { answering, stored } = objects();
        const server = await gcsServer(answering);
        for (const resumable of [false, true]) {
          const storage = bound(server.url);
          let attempts = 0;
          const open = (): Socket => connect(server.port, "127.0.0.1");
          connectsBy(storage, { connect: () => ((attempts += 1) < 3 ? refusing() : open()) });
          const once = Readable.from([Buffer.from("one "), Buffer.from("shot")]);
          await file(storage, `s${resumable}`).save(once, { ...unchecked, resumable });
          expect(attempts).toBe(3);
          expect(stored.get(`s${resumable}`)?.toString()).toBe("one shot");
        }
      });

      it("DL-07 DL-27 a refused connection is not sent, and the count of attempts ends", async () => {
        for (const [, call] of calls) {
          const storage = bound("http://127.0.0.1:9", { maxAttempts: 2 });
          let attempts = 0;
          connectsBy(storage, { connect: () => ((attempts += 1), refusing()) });
          const failed = await failure(() => call(storage));
          expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "not-sent", timedOut: false });
          expect(failed.message).toContain("not tried again: attempt 2 of 2");
          expect(attempts).toBe(2);
        }
      });
    });

    it("DL-07 DL-27 120 cuts at random places: never not-sent when the server has a byte of the request", async () => {
      let cutAt = 0;
      const server = await tcpServer((socket, got) => {
        if (got >= cutAt) socket.resetAndDestroy();
      });
      const storage = bound(`http://127.0.0.1:${server.port}`, { maxAttempts: 1 });
      const content = Buffer.alloc(8_000, 120);
      const seen = { unknown: 0, notSent: 0 };
      // Each with fewer bytes than its request has: a server that is owed more would never cut.
      const cuts: [() => Promise<unknown>, number][] = [
        [() => file(storage).save(content, { ...unchecked, resumable: false }), 8_000],
        [() => file(storage).save(content, unchecked), 350],
        [() => file(storage).setMetadata({ metadata: { long: "x".repeat(3_000) } }), 3_000],
      ];
      for (let n = 0; n < 120; n++) {
        const [call, size] = cuts[n % cuts.length]!;
        cutAt = 1 + ((n * 7_919) % size);
        server.forget();
        const failed = await failure(() => within(2_000, call));
        if (server.bytes() > 0) expect(failed.outcome).toBe("unknown");
        seen[failed.outcome === "unknown" ? "unknown" : "notSent"]++;
      }
      expect(seen.unknown).toBeGreaterThan(100);
    });

    describe("DL-23 DL-27 the caller's signal", () => {
      it("DL-23 DL-27 before it is sent and after the body", async () => {
        const server = await gcsServer(says.silent);
        for (const [, call] of calls) {
          const early = new AbortController();
          const storage = bound("http://127.0.0.1:9");
          connectsBy(storage, { connect: () => (queueMicrotask(() => early.abort()), connecting()) });
          const unsent = await failure(() => within(5_000, () => call(storage), { signal: early.signal }));
          expect(unsent).toMatchObject({ code: "CANCELED", outcome: "not-sent", timedOut: false });

          const late = new AbortController();
          const before = server.received.length;
          const running = failure(() => within(5_000, () => call(bound(server.url)), { signal: late.signal }));
          while (server.received.length === before) await systemClock.sleep(2);
          late.abort();
          expect(await running).toMatchObject({ code: "CANCELED", outcome: "unknown", timedOut: false });
        }
      });
    });

    describe("streams", () => {
      it("DL-21 DL-27 left unread, they are destroyed with the scope, and their sockets", async () => {
        const server = await gcsServer(says.stalled);
        const storage = bound(server.url);
        const { reading, idle, writing } = await within(5_000, async () => {
          const reading = file(storage).createReadStream(unchecked);
          reading.once("data", () => undefined);
          const idle = file(storage).createReadStream(unchecked);
          const writing = file(storage).createWriteStream(unchecked);
          while (server.received.length < 1) await systemClock.sleep(2);
          return { reading, idle, writing };
        });
        for (const stream of [reading, idle, writing]) {
          await expect(finished(stream)).rejects.toMatchObject({ code: "SCOPE_CLOSED" });
        }
        while (!server.connections.every((socket) => socket.destroyed)) await systemClock.sleep(5);
        expect(server.received).toHaveLength(1);
      });

      it("DL-27 one that nobody writes to, or whose writer stalls, ends by the deadline", async () => {
        const server = await gcsServer(objects().answering);
        for (const resumable of [false, true]) {
          const idle = await bounded(() =>
            finished(file(bound(server.url)).createWriteStream({ ...unchecked, resumable })),
          );
          inTime(idle.tookMs);
          expect(idle).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
        }
        expect(server.received).toHaveLength(0);
        const source = new PassThrough();
        source.write("begun");
        const stalled = await bounded(() => file(bound(server.url)).save(source, { ...unchecked, resumable: false }));
        inTime(stalled.tookMs);
        expect(stalled).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
        expect(server.bytes()).toBeGreaterThan(0);
      });

      it("DL-18 DL-27 what is read or written after its scope is not sent, whatever scope the reader is in", async () => {
        const server = await gcsServer(says.bytes("hello"));
        const storage = bound(server.url);
        const [late, listed] = await within(5_000, async () => [
          file(storage).createReadStream(unchecked),
          storage.bucket("b").getFilesStream(),
        ]);
        await expect(finished(late)).rejects.toMatchObject({ code: "SCOPE_CLOSED", outcome: "not-sent" });
        await expect(finished(listed)).rejects.toMatchObject({ code: "SCOPE_CLOSED", outcome: "not-sent" });
        const inner = await failure(() =>
          within(5_000, async () => {
            const bucket = storage.bucket("b");
            const stream = await within(5_000, async () => bucket.file("f").createReadStream(unchecked));
            for await (const chunk of stream) expect(chunk).toBeDefined();
          }),
        );
        expect(inner).toMatchObject({ code: "SCOPE_CLOSED" });
        expect(server.received).toHaveLength(0);
      });

      it("DL-27 a stream belongs to the scope it was made in, not to that of its reader", async () => {
        const rest: (() => void)[] = [];
        const server = await gcsServer((response) => {
          response.writeHead(200, { "content-length": "300010" });
          response.write(Buffer.alloc(300_000, 97));
          rest.push(() => response.end("and so on!"));
        });
        const size = await within(5_000, async () => {
          const stream = file(bound(server.url)).createReadStream(unchecked);
          const chunks = stream[Symbol.asyncIterator]() as AsyncIterableIterator<Buffer>;
          const first = await within(5_000, () => chunks.next());
          rest[0]!();
          let sum = (first.value as Buffer).length;
          for await (const chunk of chunks) sum += chunk.length;
          return sum;
        });
        expect(size).toBe(300_010);
      });

      it("DL-27 a body that breaks on the way to its reader is an error of this package, and other requests go on", async () => {
        const big = Buffer.alloc(400_000, 97);
        const server = await gcsServer((response, request) => {
          if (request.url.searchParams.get("alt") !== "media")
            return void setTimeout(() => says.json({ name: "f" })(response, request), 150);
          response.writeHead(200, { "content-length": "500000" });
          response.write(big, () => setTimeout(() => response.socket?.resetAndDestroy(), 20));
        });
        const storage = bound(server.url, { maxAttempts: 1 });
        const beside = read(storage);
        const failed = await failure(() => download(storage));
        expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "unknown" });
        expect(server.received.filter((one) => one.url.searchParams.has("alt"))).toHaveLength(1);
        // The vendor's own clean-up after a broken body destroys the agent that all requests share.
        expect(await beside).toMatchObject([{ name: "f" }, {}]);
      });
    });
  });
}
