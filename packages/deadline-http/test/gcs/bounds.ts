// Goal: @google-cloud/storage 7 and 8 keep the same bounds, outcomes and retry rules as every other client here. Method:
// the real Storage against servers of the test's own; what a server received is the oracle for the outcome. Bounds and pauses pass on the
// virtual clock, when the calls hang or pause.
import { globalAgent } from "node:http";
import { connect, type Socket } from "node:net";
import { Readable } from "node:stream";
import type { Storage } from "@google-cloud/storage";
import { describe, expect, it } from "vitest";
import { within } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { until } from "@holdfast-private/tests-machine";
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
  type Answering,
  type Vendor,
} from "../support/gcs.js";
import { allEndByBound, endsByMachine, endsIn, running } from "../support/virtual-bound.js";

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

export function bounds(vendor: Vendor): void {
  const bound = (url: string, o?: Parameters<typeof boundStorage>[2], config?: Parameters<typeof boundStorage>[3]) =>
    boundStorage(vendor, url, o, config);

  describe("DL-03 DL-27 a phase that hangs ends by the bound, whatever the call", () => {
    /** All calls at once, each ended by its bound when `hang` of them hang. */
    const each = async (storage: () => Storage, hang: () => number, outcome: string): Promise<void> => {
      const all = await allEndByBound(
        calls.map(
          ([, call]) =>
            () =>
              call(storage()),
        ),
        () => hang() === calls.length,
      );
      for (const [n, failed] of all.entries()) {
        expect(failed, calls[n]![0]).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome, timedOut: true });
        expect(failed.message).toContain("the bound of 300 ms ran out");
      }
    };

    it("DL-03 DL-07 DL-27 waiting for a socket: not sent", async () => {
      const server = await gcsServer(says.silent);
      const storage = bound(server.url);
      connectsBy(storage, { maxSockets: 1 });
      const first = failure(() => remove(storage));
      await until("the first has the socket", () => server.received.length === 1);
      await each(
        () => storage,
        () => Object.values(globalAgent.requests).flat().length,
        "not-sent",
      );
      expect(server.received).toHaveLength(1);
      server.connections[0]!.destroy();
      expect(await first).toMatchObject({ outcome: "unknown" });
    });

    it("DL-03 DL-07 DL-27 looking up the name: not sent", async () => {
      const storage = bound("http://localhost:9");
      let asked = 0;
      connectsBy(storage, { lookup: () => void (asked += 1) });
      await each(
        () => storage,
        () => asked,
        "not-sent",
      );
    });

    it("DL-03 DL-07 DL-27 connecting: not sent", async () => {
      const storage = bound("http://127.0.0.1:9");
      let made = 0;
      connectsBy(storage, { connect: () => ((made += 1), connecting()) });
      await each(
        () => storage,
        () => made,
        "not-sent",
      );
    });

    it("DL-03 DL-07 DL-27 TLS that is not finished: not sent", async () => {
      const deaf = await tcpServer();
      await each(
        () => bound(`https://127.0.0.1:${deaf.port}`),
        // The clients' hellos came; of a request nothing could.
        () => deaf.sockets.filter(({ bytesRead }) => bytesRead > 0).length,
        "not-sent",
      );
    });

    it("DL-03 DL-11 DL-27 headers: unknown, and not again", async () => {
      const server = await gcsServer(says.silent);
      await each(
        () => bound(server.url),
        () => server.received.length,
        "unknown",
      );
      expect(server.received).toHaveLength(calls.length);
    });

    it("DL-03 DL-27 by the machine's own clock, too: a timer for the bound and 100 ms finds it ended", async () => {
      const server = await gcsServer(says.json({ name: "f" }), says.silent);
      const storage = bound(server.url);
      // Loaded beforehand, which keeps the event loop.
      await read(storage);
      const failed = await endsByMachine(300, () => read(storage));
      expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED" });
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
      const readers = [read, download, ranged, stream, remove, saveAtOnce];
      const all = await allEndByBound(
        readers.map((call) => () => call(bound(server.url))),
        () => server.received.length === readers.length,
      );
      for (const failed of all) {
        expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown", timedOut: true });
      }
      await until("the sockets go", () => server.connections.every((socket) => socket.destroyed));
      expect(server.received).toHaveLength(6);
    });
  });

  describe("DL-05 DL-27 attempts and pauses", () => {
    it("DL-05 DL-27 none starts past the deadline, and the error says why there was no further one", async () => {
      let release = (): void => undefined;
      const server = await gcsServer((response, request) => (release = () => says.error(503)(response, request)));
      const clock = new VirtualClock();
      const call = running(failure(() => within(450, () => read(bound(server.url, { clock })), { clock })));
      await until("the first attempt is there", () => server.received.length === 1);
      await clock.advance(250);
      release();
      await until("it pauses", () => clock.pending === 3);
      await clock.advance(100);
      await until("the second attempt is there", () => server.received.length === 2);
      expect(await endsIn(clock, 100, call)).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
      expect([server.received.length, clock.pending]).toEqual([2, 0]);
    });

    it("DL-05 DL-27 no pause that would end past it is begun", async () => {
      const server = await gcsServer(says.error(503));
      const clock = new VirtualClock();
      const o = { clock, name: "the bound" };
      const failed = await failure(() => within(80, () => read(bound(server.url, { clock })), o));
      expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "refused", httpStatus: 503 });
      expect(failed.message).toContain("not tried again: 80 ms left, the next pause is 100 ms (the bound of 80 ms)");
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
    it("DL-06 DL-12 DL-27 reads that broke or met what passes, nothing else", async () => {
      // All at once: most of it is pauses.
      const all = once.map(async ([name, answering, httpStatus, call, count, outcome]) => {
        const server = await gcsServer(answering);
        const failed = await failure(() => call(bound(server.url)));
        const timedOut = httpStatus === 408;
        expect(failed, name).toMatchObject({ code: "REQUEST_FAILED", outcome, httpStatus, timedOut });
        expect(server.received, name).toHaveLength(count);
      });
      await Promise.all(all);
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
        expect(await read(bound(twice.url))).toMatchObject([{ name: "f" }, {}]);
        expect(twice.received).toHaveLength(3);
      }
      const body = await gcsServer(says.cut, says.bytes("hello"));
      expect(String(await download(bound(body.url)))).toBe("hello");
      for (const call of [remove, saveAtOnce]) {
        for (const answering of [says.reset, says.cut, says.ended]) {
          const server = await gcsServer(answering);
          const failed = await failure(() => call(bound(server.url)));
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
      const failed = await failure(call);
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
        const unsent = await failure(() => within(600_000, () => call(storage), { signal: early.signal }));
        expect(unsent).toMatchObject({ code: "CANCELED", outcome: "not-sent", timedOut: false });

        const late = new AbortController();
        const before = server.received.length;
        const sent = failure(() => within(600_000, () => call(bound(server.url)), { signal: late.signal }));
        await until("it is there", () => server.received.length > before);
        late.abort();
        expect(await sent).toMatchObject({ code: "CANCELED", outcome: "unknown", timedOut: false });
      }
    });
  });
}
