// Goal: an upload through a session stores the bytes that were put, once, or nothing, whatever interrupts it; and leaves no session open.
// Method: the fake GCS, whose sessions can be looked at; requests are cut at 40 places of the object, answers are lost, less is kept than was sent.
import { setImmediate as nextTurn } from "node:timers/promises";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { errorCode, writeIdKey, type PutOptions, type PutResult } from "@holdfast/object-store";
import { until } from "@holdfast-private/tests-machine";
import { gcsError, type GcsObjectsOptions, type ReceivedRequest } from "@holdfast/testkit";
import { describe, expect, it } from "vitest";
import {
  opOf,
  patterned,
  reset,
  scriptedGcs,
  stalled,
  storeOn,
  streamed,
  type Plan,
  type ScriptedGcs,
} from "../support/scripted-gcs.js";
import { vendors } from "../support/vendors.js";

const never = new AbortController().signal;
const unit = 256 * 1024;
/** Five chunks, the last one short. */
const whole = patterned(4 * unit + 1000);
const metadata = { [writeIdKey]: "mine" };
const resumable = { thresholdBytes: unit, chunkBytes: unit };
const code = (result: PutResult): string | undefined => ("error" in result ? errorCode(result.error) : undefined);
const states = (server: ScriptedGcs): string =>
  server.fake
    .sessions()
    .map(({ state }) => state)
    .join(" ");
const firstByte = ({ headers }: ReceivedRequest): number =>
  Number(/^bytes (\d+)-/.exec(headers["content-range"] ?? "")?.[1] ?? -1);
const places = Array.from({ length: 40 }, (_, n) => Math.floor((n * whole.length) / 40));

describe.each(vendors)("$name", (vendor) => {
  const test = it.skipIf(vendor.Storage === null);

  async function put(
    plan: Plan | undefined,
    o: { mode?: PutOptions["mode"]; fake?: GcsObjectsOptions; body?: ReturnType<typeof streamed> } = {},
  ) {
    const server = await scriptedGcs(plan, { fake: { chunkMultiple: unit, ...o.fake } });
    const body = o.body ?? streamed(whole);
    const { mode = "create" } = o;
    const result = await storeOn(vendor, server, { resumable }).put("k", body, { mode, signal: never, metadata });
    return { server, body, result };
  }

  test("chunks of the size that is asked for, the condition and the checksum at the start, and no look", async () => {
    const { server, result, body } = await put(undefined);
    expect(result).toEqual({ outcome: "created", etag: "1" });
    expect(server.ops()).toBe("begin chunk chunk chunk chunk chunk");
    expect(server.bytesOf("k")?.equals(whole)).toBe(true);
    const [begin, first] = server.seen;
    expect(begin!.request.url.searchParams.get("ifGenerationMatch")).toBe("0");
    expect(begin!.request.body.toString()).toContain('"crc32c":');
    expect(begin!.request.headers).toMatchObject({ "x-upload-content-length": String(whole.length) });
    expect(first!.request.headers["content-range"]).toBe(`bytes 0-${unit - 1}/${whole.length}`);
    expect(body.opened()).toBe(2); // the checksum, and the upload
    expect(states(server)).toBe("complete");
  });

  test("an object of the threshold's size goes in one request", async () => {
    const server = await scriptedGcs();
    const store = storeOn(vendor, server, { resumable });
    await store.put("k", patterned(unit), { mode: "create", signal: never });
    await store.put("l", patterned(unit + 1), { mode: "create", signal: never });
    expect(server.ops()).toBe("put begin chunk chunk");
  });

  describe("interrupted at 40 places", () => {
    test.each(places)(
      "at byte %i the connection breaks: the upload continues with what the server has",
      async (place) => {
        const { server, remove } = await cuttingAt(place, (server, request) => reset(server.fake.answer(request)));
        const body = streamed(whole);
        const result = await storeOn(vendor, server, { resumable }).put("k", body, {
          mode: "create",
          signal: never,
          metadata,
        });
        expect(result).toEqual({ outcome: "created", etag: "1" });
        expect(server.bytesOf("k")?.equals(whole)).toBe(true);
        expect(states(server)).toBe("complete");
        expect(server.ops()).toContain("far");
        expect(body.opened()).toBe(2);
        expect(remove.done).toBe(true);
      },
    );

    test.each(places)("at byte %i the session is gone: another begins, with identical bytes", async (place) => {
      const { server, remove } = await cuttingAt(place, (server) => {
        server.fake.expireSessions();
        return reset();
      });
      const result = await storeOn(vendor, server, { resumable }).put("k", streamed(whole), {
        mode: "create",
        signal: never,
        metadata,
      });
      expect(result).toEqual({ outcome: "created", etag: "1" });
      expect(server.bytesOf("k")?.equals(whole)).toBe(true);
      expect(states(server)).toBe("expired complete");
      expect(remove.done).toBe(true);
    });
  });

  /** A server that meets the chunk which holds a place when so much of it has come, once. */
  async function cuttingAt(
    place: number,
    meet: (server: ScriptedGcs, request: ReceivedRequest) => ReturnType<typeof reset>,
  ) {
    const server = await scriptedGcs();
    const inChunk = place % unit;
    const remove = { done: false };
    const take = server.server.use({
      on: (request) => opOf(request) === "chunk" && firstByte(request) === place - inChunk,
      afterBodyBytes: inChunk,
      answers: [
        (request) => {
          take();
          remove.done = true;
          return meet(server, request);
        },
      ],
    });
    return { server, remove };
  }

  describe("B28 (c) less is kept than was sent", () => {
    test("the rest is sent from where the server is", async () => {
      let puts = 0;
      const keptBytes = (_: unknown, n: number): number => (++puts % 2 === 1 ? Math.floor(n / 3) : n);
      const { server, result } = await put(undefined, { fake: { keptBytes, chunkMultiple: 1 } });
      expect(result.outcome).toBe("created");
      expect(server.bytesOf("k")?.equals(whole)).toBe(true);
    });

    test("a server that keeps nothing, again and again, is given up: CORRUPT, nothing stored, the session deleted", async () => {
      const { server, result } = await put(undefined, { fake: { keptBytes: () => 0 } });
      expect([result.outcome, code(result)]).toEqual(["failed", "CORRUPT"]);
      expect(states(server)).toBe("deleted");
    });

    test("a server that has lost bytes which it had is given them again, from another opening of the body", async () => {
      const { server, result, body } = await put(({ op, nth }, honest) =>
        op === "chunk" && nth === 3 ? { status: 308, headers: { Range: "bytes=0-99" } } : honest(),
      );
      expect(result.outcome).toBe("created");
      expect(server.bytesOf("k")?.equals(whole)).toBe(true);
      expect(body.opened()).toBe(3);
    });

    test.each(["bytes=0-9999999", "bytes=5-9", "all"])("a Range of %s cannot be: CORRUPT", async (Range) => {
      const { server, result } = await put(({ op }, honest) =>
        op === "chunk" ? { status: 308, headers: { Range } } : honest(),
      );
      expect([result.outcome, code(result)]).toEqual(["failed", "CORRUPT"]);
      expect(states(server)).toBe("deleted");
    });
  });

  describe("a lost answer to the last chunk", () => {
    const losing: Plan = ({ op, nth }, honest) => (op === "chunk" && nth === 5 ? reset(honest()) : honest());

    test("the session itself says that the object is there", async () => {
      const { server, result } = await put(losing);
      expect(result).toEqual({ outcome: "created", etag: "1" });
      expect(server.ops()).toBe("begin chunk chunk chunk chunk chunk far");
    });

    test("a session that says nothing more is looked behind, and not begun again", async () => {
      const { server, result } = await put((seen, honest) =>
        seen.op === "far" ? gcsError(410, "gone") : losing(seen, honest),
      );
      expect(result).toEqual({ outcome: "created", etag: "1" });
      expect(server.ops()).toBe("begin chunk chunk chunk chunk chunk far end head");
    });

    test("of an overwrite it stays unknown: sent again, it could undo another's", async () => {
      const { server, result } = await put(
        (seen, honest) => (seen.op === "far" ? gcsError(410, "gone") : losing(seen, honest)),
        {
          mode: "overwrite",
        },
      );
      expect([result.outcome, code(result)]).toEqual(["unknown", "UNAVAILABLE"]);
      expect(server.fake.sessions()).toHaveLength(1);
    });

    test("a lost answer to any other chunk is failed when nothing more comes of it", async () => {
      const { server, result } = await put(({ op }, honest) => (op === "chunk" || op === "far" ? reset() : honest()));
      expect([result.outcome, code(result)]).toEqual(["failed", "UNAVAILABLE"]);
      expect(states(server)).toMatch(/^deleted( deleted)*$/);
    });
  });

  describe("refusals", () => {
    test("a taken key is seen at the start: no bytes are sent", async () => {
      const server = await scriptedGcs();
      const store = storeOn(vendor, server, { resumable });
      await store.put("k", patterned(5), { mode: "create", signal: never });
      expect(await store.put("k", streamed(whole), { mode: "create", signal: never })).toMatchObject({
        outcome: "exists",
      });
      expect(server.ops()).toBe("put begin head");
    });

    test("a key that is taken meanwhile is seen at the end, and the session deleted", async () => {
      const server: ScriptedGcs = await scriptedGcs(async ({ op, nth }, honest) => {
        if (op === "chunk" && nth === 2) await store.put("k", patterned(5), { mode: "create", signal: never });
        return honest();
      });
      const store = storeOn(vendor, server, { resumable });
      expect(await store.put("k", streamed(whole), { mode: "create", signal: never, metadata })).toMatchObject({
        outcome: "exists",
        info: { size: 5 },
      });
      expect(states(server)).toBe("deleted");
    });

    test("bytes of another checksum are refused at the end; another session has the right ones", async () => {
      let opened = 0;
      const body = {
        ...streamed(whole),
        open: () => streamed(opened++ === 1 ? Buffer.from(whole).fill(7, 500, 501) : whole).open(),
      };
      const { server, result } = await put(undefined, { body });
      expect(result.outcome).toBe("created");
      expect(server.bytesOf("k")?.equals(whole)).toBe(true);
      expect(states(server)).toBe("deleted complete");
    });

    test("a body that shrinks is BODY_MISMATCH, nothing is stored, the session is deleted", async () => {
      let opened = 0;
      const body = { ...streamed(whole), open: () => streamed(opened++ === 0 ? whole : whole.subarray(1)).open() };
      const { server, result } = await put(undefined, { body });
      expect([result.outcome, code(result)]).toEqual(["failed", "BODY_MISMATCH"]);
      expect(server.bytesOf("k")).toBeUndefined();
      expect(states(server)).toBe("deleted");
    });

    test("a server that refuses the start is failed, and 503 and 429 are tried again", async () => {
      const refused = await put(({ op }, honest) => (op === "begin" ? gcsError(403, "forbidden") : honest()));
      expect([refused.result.outcome, code(refused.result)]).toEqual(["failed", "ACCESS_DENIED"]);
      const later = await put(({ op, nth }, honest) => {
        if (op === "begin" && nth < 3) return gcsError(nth === 1 ? 503 : 429, "x");
        if (op === "chunk" && nth === 2) return gcsError(503, "x");
        return honest();
      });
      expect(later.result.outcome).toBe("created");
      expect(later.server.bytesOf("k")?.equals(whole)).toBe(true);
    });

    test("an answer without an address, or with one elsewhere: nothing but the store's own server is sent anything", async () => {
      const without = await put(({ op }, honest) => (op === "begin" ? {} : honest()));
      expect([without.result.outcome, code(without.result)]).toEqual(["failed", "CORRUPT"]);
      const elsewhere = await put(({ op }, honest) => {
        const reply = honest();
        if (op !== "begin") return reply;
        const { pathname, search } = new URL(reply.headers?.["Location"] ?? "");
        return { ...reply, headers: { Location: `https://elsewhere.invalid${pathname}${search}` } };
      });
      expect(elsewhere.result.outcome).toBe("created");
    });
  });

  describe("B28 (b) the signal", () => {
    test.each([
      ["while a chunk stalls", "chunk", 3, "failed"],
      ["while the last chunk's answer stalls", "chunk", 5, "unknown"],
    ] as const)(
      "%s: it ends with the signal's error, and the session is deleted behind it",
      async (_what, op, nth, outcome) => {
        const abort = new AbortController();
        const deadline = Object.assign(new Error("5 ms ran out"), { code: "DEADLINE_EXCEEDED" });
        const server = await scriptedGcs((seen, honest) => {
          if (seen.op !== op || seen.nth !== nth) return honest();
          abort.abort(deadline);
          return stalled;
        });
        const store = storeOn(vendor, server, { resumable });
        expect(await store.put("k", streamed(whole), { mode: "create", signal: abort.signal })).toEqual({
          outcome,
          error: deadline,
        });
        await until("the session is deleted", () => states(server) === "deleted");
      },
    );

    test("a server that does not answer the deletion does not hold it for longer than its own bound", async () => {
      const abort = new AbortController();
      const clock = new VirtualClock();
      const server = await scriptedGcs((seen, honest) => {
        if (seen.op === "chunk") abort.abort();
        return seen.op === "chunk" || seen.op === "end" ? stalled : honest();
      });
      const store = storeOn(vendor, server, { resumable, clock });
      const result = await store.put("k", streamed(whole), { mode: "create", signal: abort.signal });
      expect([result.outcome, code(result)]).toEqual(["failed", "CANCELED"]);
      await until("the session is to be deleted", () => server.ops().endsWith("end"));
      await nextTurn();
      await clock.advance(5_000);
      await until("its connections go", () =>
        server.server.connections.every(({ closedAt }) => closedAt !== undefined),
      );
    });
  });
});
