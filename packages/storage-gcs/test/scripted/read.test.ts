// Goal: a read gives the bytes that were asked for or an error, never something else. Method: the fake GCS, whose answers are changed in each way
// that servers and proxies change them; reads are judged by what they return.
import { setImmediate as nextTurn } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { errorCode } from "@holdfast/object-store";
import { until } from "@holdfast-private/tests-machine";
import { delivered, gcsError, type Reply } from "@holdfast/testkit";
import { describe, expect, it } from "vitest";
import { reset, scriptedGcs, storeOn, type Plan } from "../support/scripted-gcs.js";
import { vendors } from "../support/vendors.js";

const never = new AbortController().signal;
const whole = Buffer.from("0123456789".repeat(10));
const range = { offset: 10, length: 20 };
const part = whole.subarray(10, 30);

describe.each(vendors)("$name", (vendor) => {
  const test = it.skipIf(vendor.Storage === null);

  /** Reads a range (or all) of 100 bytes from a server that answers downloads by the plan. */
  async function read(plan: Plan | undefined, o: { range?: typeof range | null; ifMatch?: string } = {}) {
    const server = await scriptedGcs((seen, honest) =>
      seen.op === "get" ? (plan?.(seen, honest) ?? honest()) : honest(),
    );
    const store = storeOn(vendor, server);
    await store.put("k", whole, { mode: "create", signal: never, metadata: { a: "1" } });
    server.seen.length = 0;
    const asked = o.range === null ? {} : { range: o.range ?? range };
    const condition = o.ifMatch === undefined ? {} : { ifMatch: o.ifMatch };
    const got = await store.get("k", { ...asked, ...condition, signal: never }).then(
      ({ bytes }) => Buffer.from(bytes).toString(),
      (error: unknown) => errorCode(error) ?? String(error),
    );
    return { server, store, got };
  }

  /** The honest answer with other headers (undefined: without), and another body. */
  const changed =
    (headers: Record<string, string | undefined>, more: Partial<Reply> = {}): Plan =>
    (_seen, honest) => {
      const reply = honest();
      const all = Object.entries({ ...reply.headers, ...headers }).filter(
        (one): one is [string, string] => one[1] !== undefined,
      );
      const kept = all.filter(
        ([name], at) => !all.some(([other], i) => i > at && other.toLowerCase() === name.toLowerCase()),
      );
      return { ...reply, ...more, headers: Object.fromEntries(kept) };
    };
  const rangeOf = (from: number, to: number): Partial<Reply> => ({ body: whole.subarray(from, to + 1) });

  test("the honest answer is the range, by one request for the bytes and one for the metadata", async () => {
    const { got, server } = await read(undefined);
    expect(got).toBe(part.toString());
    expect(server.ops()).toBe("get head");
    const [get, head] = server.seen;
    expect(get!.request.headers).toMatchObject({ range: "bytes=10-29", "accept-encoding": "gzip" });
    expect(head!.request.url.searchParams.get("ifGenerationMatch")).toBe("1");
  });

  test("what was said of an object is remembered for its next range, and asked for again when it may have changed", async () => {
    const { server, store } = await read(undefined);
    const got = await store.get("k", { range: { suffix: 5 }, signal: never });
    expect(got.info).toMatchObject({ key: "k", size: 100, etag: "1", metadata: { a: "1" } });
    expect(server.ops()).toBe("get head get");
    const stored = server.fake.objects.get("bucket/k")!;
    server.fake.objects.set("bucket/k", {
      ...stored,
      headers: { ...stored.headers, metageneration: "2", metadata: JSON.stringify({ a: "2" }) },
    });
    expect((await store.get("k", { signal: never })).info.metadata).toEqual({ a: "2" });
    await store.put("k", whole, { mode: "overwrite", signal: never, metadata: { a: "3" } });
    expect((await store.get("k", { signal: never })).info).toMatchObject({ etag: "2", metadata: { a: "3" } });
  });

  test("an object that is replaced or deleted between its bytes and its metadata is read again", async () => {
    const server = await scriptedGcs(({ op, nth }, honest) => {
      if (op === "head" && nth === 1) {
        const stored = server.fake.objects.get("bucket/k")!;
        server.fake.objects.set("bucket/k", { ...stored, generation: 7, bytes: Buffer.from("another") });
      }
      if (op === "head" && nth === 2) server.fake.objects.delete("bucket/k");
      return honest();
    });
    const store = storeOn(vendor, server);
    await store.put("k", whole, { mode: "create", signal: never });
    await expect(store.get("k", { signal: never })).rejects.toMatchObject({ code: "NOT_FOUND" });
    expect(server.ops()).toBe("put get head get head get");
  });

  describe("a range that was not asked for", () => {
    test.each<[string, Plan]>([
      ["a 200 with the whole object", changed({ "Content-Range": undefined }, { status: 200, body: whole })],
      ["a 200 with the range", changed({ "Content-Range": undefined }, { status: 200 })],
      ["a range shifted by one", changed({ "Content-Range": "bytes 11-30/100" }, rangeOf(11, 30))],
      ["a range cut short", changed({ "Content-Range": "bytes 10-28/100" }, rangeOf(10, 28))],
      ["a range too long", changed({ "Content-Range": "bytes 10-30/100" }, rangeOf(10, 30))],
      ["a length that is not the range's", changed({}, rangeOf(10, 27))],
      ["no content-range", changed({ "Content-Range": undefined })],
      ["a content-range without the size", changed({ "Content-Range": "bytes 10-29/*" })],
      [
        "a content-range past the size",
        changed({ "Content-Range": "bytes 0-100/100" }, { status: 200, body: Buffer.alloc(101) }),
      ],
      [
        "a 200 whose range misses the last byte",
        changed({ "Content-Range": "bytes 0-28/100" }, { status: 200, ...rangeOf(0, 28) }),
      ],
      ["chunks that are a byte short", changed({}, { framing: "chunked", ...rangeOf(10, 28) })],
      ["chunks with a byte too many", changed({}, { framing: "chunked", ...rangeOf(10, 30) })],
      ["a body that was packed", changed({ "Content-Encoding": "gzip" }, { body: gzipSync(part) })],
      ["an answer without a generation", changed({ "X-Goog-Generation": undefined })],
      ["another size than the object's", changed({ "Content-Range": "bytes 10-29/99" })],
    ])("%s is CORRUPT", async (_what, plan) => expect((await read(plan)).got).toBe("CORRUPT"));

    test.each<[string, Plan]>([
      ["a 206 in chunks, without a length,", changed({}, { framing: "chunked" })],
      ["a 200 whose content-range is what was asked for", changed({}, { status: 200 })],
      [
        "a 200 whose content-range is the whole object",
        changed({ "Content-Range": "bytes 0-99/100" }, { status: 200, body: whole }),
      ],
      [
        "the same in chunks",
        changed({ "Content-Range": "bytes 0-99/100" }, { status: 200, body: whole, framing: "chunked" }),
      ],
    ])("%s is the range", async (_what, plan) => expect((await read(plan)).got).toBe(part.toString()));

    test("a 206 that only the end of its connection ends is no range: it cannot prove its end", async () => {
      expect((await read(changed({}, { framing: "close" }))).got).toMatch(/^(?:CORRUPT|UNAVAILABLE)$/);
    });
  });

  describe("whole objects", () => {
    test.each<[string, Plan, string]>([
      ["a 206", changed({ "Content-Range": "bytes 0-99/100" }, { status: 206 }), "CORRUPT"],
      ["a wrong CRC-32C", changed({ "X-Goog-Hash": "crc32c=AAAAAA==,md5=x" }), "CORRUPT"],
      ["another byte, under the right checksum", changed({}, { body: Buffer.from(whole).fill(0, 50, 51) }), "CORRUPT"],
      ["a byte too few, declared as whole", changed({}, { body: whole.subarray(1) }), "CORRUPT"],
      ["a page of a proxy", () => ({ body: "<html>sign in</html>" }), "CORRUPT"],
      ["nothing", () => ({}), "CORRUPT"],
      ["chunks", changed({}, { framing: "chunked" }), whole.toString()],
      ["no checksum in the headers", changed({ "X-Goog-Hash": undefined }), whole.toString()],
    ])("%s: %#", async (_what, plan, expected) => expect((await read(plan, { range: null })).got).toBe(expected));
  });

  describe("an object that is stored with a content encoding", () => {
    const zipped = gzipSync("hello, hello, hello");
    const encoded = async () => {
      const server = await scriptedGcs();
      const store = storeOn(vendor, server);
      await store.put("z", zipped, { mode: "create", signal: never });
      const stored = server.fake.objects.get("bucket/z")!;
      server.fake.objects.set("bucket/z", { ...stored, headers: { ...stored.headers, "content-encoding": "gzip" } });
      return { server, store };
    };

    test("comes whole as it is stored, not unpacked", async () => {
      const { store } = await encoded();
      expect(Buffer.from((await store.get("z", { signal: never })).bytes).equals(zipped)).toBe(true);
      expect(await store.head("z", { signal: never })).toMatchObject({ size: zipped.length });
    });

    test("has no ranges: the error names it and its encoding", async () => {
      const { store } = await encoded();
      const error: unknown = await store.get("z", { range, signal: never }).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: "CORRUPT" });
      expect((error as Error).message).toMatch(/"z".*Content-Encoding "gzip"/);
    });

    test("that was unpacked on the way is CORRUPT", async () => {
      const server = await scriptedGcs(({ op, request }, honest) => {
        const headers = { ...request.headers, "accept-encoding": "identity" };
        return op === "get" ? server.fake.answer({ ...request, headers }) : honest();
      });
      const store = storeOn(vendor, server);
      await store.put("z", zipped, { mode: "create", signal: never });
      const stored = server.fake.objects.get("bucket/z")!;
      server.fake.objects.set("bucket/z", { ...stored, headers: { ...stored.headers, "content-encoding": "gzip" } });
      for (const asked of [{}, { range }]) {
        await expect(store.get("z", { ...asked, signal: never })).rejects.toMatchObject({ code: "CORRUPT" });
      }
    });
  });

  describe("a condition", () => {
    test("goes with the request, and one that does not hold is PRECONDITION_FAILED", async () => {
      expect((await read(undefined, { ifMatch: "1" })).got).toBe(part.toString());
      for (const ifMatch of ["2", "x", "*", "0"]) {
        expect((await read(undefined, { ifMatch })).got).toBe("PRECONDITION_FAILED");
      }
    });

    test("that the server ignores gives no other object for the one that was asked for", async () => {
      const ignoring: Plan = (_seen, honest) => ({ ...honest(), status: 206 });
      const server = await scriptedGcs((seen, honest) => {
        seen.request.url.searchParams.delete("ifGenerationMatch");
        return seen.op === "get" ? ignoring(seen, honest) : honest();
      });
      const store = storeOn(vendor, server);
      await store.put("k", whole, { mode: "create", signal: never });
      await expect(store.get("k", { range, ifMatch: "99", signal: never })).rejects.toMatchObject({
        code: "PRECONDITION_FAILED",
      });
    });
  });

  describe("a read that breaks", () => {
    test("is made again: a reset, a body that ends early, a 503, an error in a 200", async () => {
      const plans: Plan[] = [
        () => reset(),
        (_seen, honest) => delivered(honest(), { stopAt: { place: "mid-body", by: "rst" } }),
        (_seen, honest) => delivered(honest(), { stopAt: { place: "mid-body", by: "fin" } }),
        () => gcsError(503, "backendError"),
        () => gcsError(429, "rateLimitExceeded"),
      ];
      for (const plan of plans) {
        const { got, server } = await read((seen, honest) => (seen.nth === 1 ? plan(seen, honest) : honest()));
        expect(got).toBe(part.toString());
        expect(server.seen.filter(({ op }) => op === "get")).toHaveLength(2);
      }
    });

    test("B6 a body that stalls ends at the signal, with its error, and its socket is closed", async () => {
      const server = await scriptedGcs(({ op }, honest) =>
        op === "get" ? delivered(honest(), { stopAt: { place: "mid-body", by: "stall" } }) : honest(),
      );
      const store = storeOn(vendor, server);
      await store.put("k", whole, { mode: "create", signal: never });
      const abort = new AbortController();
      const deadline = Object.assign(new Error("ran out"), { code: "DEADLINE_EXCEEDED" });
      const got = store.get("k", { range, signal: abort.signal });
      got.catch(() => undefined);
      await until("it is asked", () => server.ops().includes("get"));
      for (let turn = 0; turn < 20; turn++) await nextTurn();
      abort.abort(deadline);
      await expect(got).rejects.toBe(deadline);
      const [connection] = server.server.connections.slice(-1);
      await until("its socket goes", () => connection!.closedAt !== undefined);
    });

    test("403 is ACCESS_DENIED and never null, 404 of the bucket is CONFIG_INVALID, of the object NOT_FOUND or null", async () => {
      const denied = await scriptedGcs(() => gcsError(403, "forbidden"));
      await expect(storeOn(vendor, denied).head("k", { signal: never })).rejects.toMatchObject({
        code: "ACCESS_DENIED",
      });
      const server = await scriptedGcs(undefined, { fake: { buckets: ["other"] } });
      for (const call of [
        () => storeOn(vendor, server).head("k", { signal: never }),
        () => storeOn(vendor, server).get("k", { signal: never }),
        () => storeOn(vendor, server).delete("k", { signal: never }),
      ]) {
        await expect(call()).rejects.toMatchObject({ code: "CONFIG_INVALID" });
      }
      const empty = storeOn(vendor, await scriptedGcs());
      expect(await empty.head("k", { signal: never })).toBeNull();
      await expect(empty.get("k", { signal: never })).rejects.toMatchObject({ code: "NOT_FOUND" });
      await empty.delete("k", { signal: never });
    });

    test("a head that is about no object, or about another, is CORRUPT", async () => {
      for (const said of [
        "{}",
        '{"name":"k","generation":"1"}',
        '{"name":"other","size":"1","generation":"1"}',
        "<html>",
      ]) {
        const server = await scriptedGcs(() => ({ headers: { "content-type": "application/json" }, body: said }));
        const code = await storeOn(vendor, server)
          .head("k", { signal: never })
          .catch((error: unknown) => errorCode(error));
        expect(code, said).toMatch(/^(?:CORRUPT|UNAVAILABLE)$/);
      }
    });

    test("a delete that is answered with a page is CORRUPT", async () => {
      const server = await scriptedGcs(() => ({ body: "<html>sign in</html>" }));
      await expect(storeOn(vendor, server).delete("k", { signal: never })).rejects.toMatchObject({ code: "CORRUPT" });
    });
  });

  test("a range outside the object, and any of an empty one, is INVALID_RANGE", async () => {
    const server = await scriptedGcs();
    const store = storeOn(vendor, server);
    await store.put("k", whole, { mode: "create", signal: never });
    await store.put("empty", new Uint8Array(0), { mode: "create", signal: never });
    await expect(store.get("k", { range: { offset: 100, length: 1 }, signal: never })).rejects.toMatchObject({
      code: "INVALID_RANGE",
    });
    for (const asked of [{ suffix: 3 }, { offset: 0, length: 1 }]) {
      await expect(store.get("empty", { range: asked, signal: never })).rejects.toMatchObject({
        code: "INVALID_RANGE",
      });
    }
    expect((await store.get("empty", { signal: never })).bytes.byteLength).toBe(0);
    const cut = await store.get("k", { range: { offset: 95, length: 50 }, signal: never });
    expect(Buffer.from(cut.bytes).toString()).toBe("56789");
  });
});
