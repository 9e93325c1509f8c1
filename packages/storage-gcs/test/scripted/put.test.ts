// Goal: what a put says is true, whatever the server does: "failed" only when nothing can be stored, "created" only when our bytes are
// there. Method: the fake GCS, with answers that are lost, late, refused or wrong on cue; what it holds at the end is the oracle.
import {
  errorCode,
  memoryStore,
  putVerified,
  writeIdKey,
  type PutOptions,
  type PutResult,
} from "@holdfast/object-store";
import { until } from "@holdfast-private/tests-machine";
import { gcsError } from "@holdfast/testkit";
import { describe, expect, it } from "vitest";
import { patterned, reset, scriptedGcs, stalled, storeOn, streamed, type Plan } from "../support/scripted-gcs.js";
import { vendors } from "../support/vendors.js";

const never = new AbortController().signal;
const bytes = new TextEncoder().encode("the bytes of this test");
const metadata = { [writeIdKey]: "mine" };
const code = (result: PutResult): string | undefined => ("error" in result ? errorCode(result.error) : undefined);
const create = { mode: "create", signal: never } as const;

describe.each(vendors)("$name", (vendor) => {
  const test = it.skipIf(vendor.Storage === null);

  async function put(plan: Plan, o: { mode?: PutOptions["mode"]; writeId?: boolean } = {}) {
    const server = await scriptedGcs(plan);
    const store = storeOn(vendor, server);
    const { mode = "create" } = o;
    const result = await store.put("k", bytes, { mode, signal: never, ...(o.writeId === false ? {} : { metadata }) });
    return { server, store, result };
  }

  /** The first put is stored and its answer lost. */
  const lostAnswer: Plan = ({ op, nth }, honest) => (op === "put" && nth === 1 ? reset(honest()) : honest());

  describe("one request proves itself", () => {
    test("bytes in memory and from a source, small, large and none, come back whole, with one request each", async () => {
      const server = await scriptedGcs();
      const store = storeOn(vendor, server);
      for (const [key, size] of [
        ["none", 0],
        ["small", 100],
        ["large", 3 << 20],
      ] as const) {
        const whole = patterned(size);
        for (const [kind, body] of [
          ["memory", whole],
          ["source", streamed(whole)],
        ] as const) {
          const name = `${kind} ${key}`;
          const result = await store.put(name, body, { ...create, metadata, contentType: "a/b" });
          expect(result, name).toEqual({
            outcome: "created",
            etag: String(server.fake.objects.get(`bucket/${name}`)?.generation),
          });
          expect(server.bytesOf(name)?.equals(whole), name).toBe(true);
        }
      }
      expect(server.ops()).toBe("put put put put put put");
    });

    test("carries condition, key, type, class, project and checksum, and braces in values as they are", async () => {
      const server = await scriptedGcs();
      const kmsKeyName = "projects/p/locations/l/keyRings/r/cryptoKeys/k";
      const store = storeOn(vendor, server, {
        kmsKeyName,
        storageClass: "NEARLINE",
        userProject: "payer",
        keyPrefix: "t/",
      });
      const odd = { note: "{{projectId}} {{{x}}}", empty: "" };
      const result = await store.put("a b/{{projectId}}", bytes, {
        ...create,
        metadata: odd,
        contentType: "text/plain",
      });
      expect(result.outcome).toBe("created");
      const [seen] = server.seen;
      expect(Object.fromEntries(seen!.request.url.searchParams)).toMatchObject({
        uploadType: "multipart",
        name: "t/a b/{{projectId}}",
        ifGenerationMatch: "0",
        kmsKeyName,
        userProject: "payer",
      });
      expect(seen!.request.body.toString("latin1")).toContain('"storageClass":"NEARLINE"');
      const info = await store.head("a b/{{projectId}}", { signal: never });
      expect(info).toMatchObject({ key: "a b/{{projectId}}", size: bytes.length, metadata: odd });
      expect(server.seen[1]!.request.url.searchParams.get("userProject")).toBe("payer");
    });

    // Only what flows passes through the vendor's own hands, and that replaces its placeholder in every text.
    test("braces in the metadata of a body that flows come back as they are", async () => {
      const store = storeOn(vendor, await scriptedGcs());
      const odd = { note: "{{projectId}} {{{x}}}" };
      expect((await store.put("k", streamed(patterned(5)), { ...create, metadata: odd })).outcome).toBe("created");
      expect((await store.head("k", { signal: never }))?.metadata).toEqual(odd);
    });

    test("a replacement names the generation, an overwrite names none", async () => {
      const server = await scriptedGcs();
      const store = storeOn(vendor, server);
      const first = await store.put("k", bytes, { mode: "overwrite", signal: never });
      const etag = first.outcome === "created" ? first.etag : "";
      const second = await store.put("k", patterned(5), { mode: { ifMatch: etag }, signal: never });
      expect(second.outcome).toBe("created");
      expect(await store.put("k", bytes, { mode: { ifMatch: etag }, signal: never })).toMatchObject({
        outcome: "exists",
      });
      const conditions = server.seen
        .filter(({ op }) => op === "put")
        .map(({ request }) => request.url.searchParams.get("ifGenerationMatch"));
      expect(conditions).toEqual([null, etag, etag]);
    });

    test("an etag that GCS could not have made: exists where something is, PRECONDITION_FAILED where nothing is", async () => {
      const server = await scriptedGcs();
      const store = storeOn(vendor, server);
      await store.put("k", bytes, create);
      for (const ifMatch of ["0", "*", "x", '"1"', "99999999999999999999"]) {
        expect(await store.put("k", bytes, { mode: { ifMatch }, signal: never })).toMatchObject({ outcome: "exists" });
        const absent = await store.put("other", bytes, { mode: { ifMatch }, signal: never });
        expect([absent.outcome, code(absent)]).toEqual(["failed", "PRECONDITION_FAILED"]);
      }
    });
  });

  describe("a lost answer", () => {
    test("B21 our own object is recognised by its write id when the repeated create finds the key taken", async () => {
      const { server, result } = await put(lostAnswer);
      expect(result).toEqual({ outcome: "created", etag: "1" });
      expect(server.ops()).toBe("put put head");
    });

    test("B21 an object of the same bytes with another write id is not ours", async () => {
      const { result } = await put(({ op, nth }, honest) => {
        if (op === "head") return changedMetadata(honest());
        return op === "put" && nth === 1 ? reset(honest()) : honest();
      });
      expect(result).toMatchObject({ outcome: "exists", info: { metadata: { [writeIdKey]: "theirs" } } });
    });

    // Red without `mayBeOurs` in src/look.ts: `exists` says that nothing was written, and our own object is there.
    test("B21 without a write id it cannot be told: the outcome is open", async () => {
      expect((await put(lostAnswer, { writeId: false })).result.outcome).toBe("unknown");
    });

    test("B21 a look that fails leaves the outcome open", async () => {
      const { result } = await put((seen, honest) =>
        seen.op === "head" ? gcsError(500, "x") : lostAnswer(seen, honest),
      );
      expect(result.outcome).toBe("unknown");
    });

    test("B21 a key that was taken and is free again is created after all", async () => {
      const { result, server } = await put(({ op, nth }, honest) =>
        op === "put" && nth === 1 ? gcsError(412, "conditionNotMet") : honest(),
      );
      expect(result.outcome).toBe("created");
      expect(server.ops()).toBe("put head put");
    });

    test("an overwrite is not sent again: it could undo another's", async () => {
      const { server, result } = await put(() => reset(), { mode: "overwrite" });
      expect([result.outcome, code(result)]).toEqual(["unknown", "UNAVAILABLE"]);
      expect(server.ops()).toBe("put");
    });

    test("a replacement is sent again under its condition, and finds its own object", async () => {
      const server = await scriptedGcs(({ op, nth }, honest) =>
        op === "put" && nth === 2 ? reset(honest()) : honest(),
      );
      const store = storeOn(vendor, server);
      await store.put("k", bytes, create);
      const result = await store.put("k", patterned(9), { mode: { ifMatch: "1" }, signal: never, metadata });
      expect(result).toEqual({ outcome: "created", etag: "2" });
      expect(server.ops()).toBe("put put put head");
    });

    test("B28 (a) an answer that never comes is unknown at the signal, with the signal's error", async () => {
      const deadline = Object.assign(new Error("5 ms ran out"), { code: "DEADLINE_EXCEEDED" });
      const abort = new AbortController();
      const server = await scriptedGcs(() => (abort.abort(deadline), stalled));
      const done = storeOn(vendor, server).put("k", bytes, { mode: "create", signal: abort.signal });
      expect(await done).toEqual({ outcome: "unknown", error: deadline });
      await until("its connection goes", () =>
        server.server.connections.every(({ closedAt }) => closedAt !== undefined),
      );
    });
  });

  describe("failed means that nothing was stored", () => {
    test("nothing listens", async () => {
      const result = await storeOn(vendor, { url: "http://127.0.0.1:1" }).put("k", bytes, create);
      expect([result.outcome, code(result)]).toEqual(["failed", "UNAVAILABLE"]);
    });

    test.each([
      [403, "forbidden", "ACCESS_DENIED"],
      [401, "authError", "ACCESS_DENIED"],
      [404, "notFound", "CONFIG_INVALID"],
      [400, "invalid", "UNAVAILABLE"],
      [400, "userProjectMissing", "CONFIG_INVALID"],
      [413, "uploadTooLarge", "TOO_LARGE"],
    ])("%s %s is failed with %s, once", async (status, reason, expected) => {
      const { server, result } = await put(() => gcsError(status, reason));
      expect([result.outcome, code(result)]).toEqual(["failed", expected]);
      expect(server.ops()).toBe("put");
    });

    test.each([
      [429, "rateLimitExceeded"],
      [403, "rateLimitExceeded"],
      [409, "conflict"],
    ])("%s %s is sent again, an overwrite too, then failed", async (status, reason) => {
      const { server, result } = await put(() => gcsError(status, reason), { mode: "overwrite" });
      expect([result.outcome, code(result)]).toEqual(["failed", "UNAVAILABLE"]);
      expect(server.ops()).toBe("put put put put");
    });

    test.each([500, 502, 503, 504, 408])("%i may have been stored: unknown", async (status) => {
      const { result } = await put(() => gcsError(status, "backendError"), { mode: "overwrite" });
      expect([result.outcome, code(result)]).toEqual(["unknown", "UNAVAILABLE"]);
    });

    test("a replacement where nothing is: PRECONDITION_FAILED, also from a server that says 404", async () => {
      for (const status of [412, 404]) {
        const { result } = await put(({ op }, honest) => (op === "put" ? gcsError(status, "x") : honest()), {
          mode: { ifMatch: "5" },
        });
        expect([result.outcome, code(result)]).toEqual(["failed", "PRECONDITION_FAILED"]);
      }
    });
  });

  describe("an answer that does not prove the object", () => {
    const answering =
      (change: (said: Record<string, unknown>) => Record<string, unknown>): Plan =>
      ({ op }, honest) => {
        const reply = honest();
        if (op !== "put" || (reply.status ?? 200) !== 200) return reply;
        return { ...reply, body: JSON.stringify(change(JSON.parse(String(reply.body)) as Record<string, unknown>)) };
      };

    test("of another checksum is looked at, and believed by the write id and the checksum that is there", async () => {
      const { server, result } = await put(answering((said) => ({ ...said, crc32c: "AAAAAA==" })));
      expect(result).toEqual({ outcome: "created", etag: "1" });
      expect(server.ops()).toBe("put head");
    });

    test("of nothing, a page, another object: looked at", async () => {
      for (const change of [() => ({}), () => ({ name: "other", size: "1", generation: "7" })]) {
        expect((await put(answering(change))).result).toEqual({ outcome: "created", etag: "1" });
      }
      const page: Plan = ({ op }, honest) => (op === "put" ? { ...honest(), body: "<html>sign in</html>" } : honest());
      expect((await put(page)).result).toEqual({ outcome: "created", etag: "1" });
    });

    test("nothing was stored: unknown, whatever the answer said", async () => {
      const plan: Plan = ({ op }, honest) =>
        op === "put" ? { headers: { "content-type": "application/json" }, body: "{}" } : honest();
      expect((await put(plan)).result.outcome).toBe("unknown");
    });
  });

  test("putVerified and memoryStore agree on what a race leaves", async () => {
    const server = await scriptedGcs();
    for (const store of [storeOn(vendor, server), memoryStore()]) {
      const writers = Array.from({ length: 8 }, (_, n) =>
        putVerified(store, "race", patterned(10 + n), { writeId: `writer-${n}`, signal: never }),
      );
      const results = await Promise.all(writers);
      expect(results.filter(({ outcome }) => outcome === "created")).toHaveLength(1);
      expect(results.filter(({ outcome }) => outcome === "conflict")).toHaveLength(7);
    }
  });
});

/** A resource whose write id is another's. */
function changedMetadata<T extends { readonly body?: string | Uint8Array }>(reply: T): T {
  const said = JSON.parse(String(reply.body)) as Record<string, unknown>;
  return { ...reply, body: JSON.stringify({ ...said, metadata: { [writeIdKey]: "theirs" } }) };
}
