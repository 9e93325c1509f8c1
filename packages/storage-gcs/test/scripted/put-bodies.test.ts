// Goal: a body that breaks its promise (shorter, longer, changed, failing, stalling) stores nothing. Method: the fake GCS and bodies that
// flow; what the fake holds at the end is the oracle.
import { errorCode, type PutResult } from "@holdfast/object-store";
import { gcsError } from "@holdfast/testkit";
import { describe, expect, it } from "vitest";
import { patterned, scriptedGcs, storeOn, streamed } from "../support/scripted-gcs.js";
import { vendors } from "../support/vendors.js";

const create = { mode: "create", signal: new AbortController().signal } as const;
const code = (result: PutResult): string | undefined => ("error" in result ? errorCode(result.error) : undefined);

describe.each(vendors)("$name: bodies", (vendor) => {
  const test = it.skipIf(vendor.Storage === null);

  test("are opened again for each attempt, and closed", async () => {
    const body = streamed(patterned(200_000));
    const server = await scriptedGcs(({ nth }, honest) => (nth < 3 ? gcsError(503, "x") : honest()));
    expect((await storeOn(vendor, server).put("k", body, create)).outcome).toBe("created");
    expect(server.bytesOf("k")?.equals(patterned(200_000))).toBe(true);
    expect(body.opened()).toBe(4); // the checksum, and three attempts
  });

  test.each([99_999, 100_001])(
    "that declare %i bytes and have 100,000 are BODY_MISMATCH, and nothing is sent",
    async (size) => {
      const server = await scriptedGcs();
      const result = await storeOn(vendor, server).put("k", { ...streamed(patterned(100_000)), size }, create);
      expect([result.outcome, code(result)]).toEqual(["failed", "BODY_MISMATCH"]);
      expect(server.ops()).toBe("");
    },
  );

  test("that shrink between their readings break the request, and nothing is stored", async () => {
    const whole = patterned(200_000);
    let opened = 0;
    const body = { size: whole.length, open: () => streamed(opened++ === 0 ? whole : whole.subarray(1)).open() };
    const server = await scriptedGcs();
    const result = await storeOn(vendor, server).put("k", body, create);
    expect([result.outcome, code(result)]).toEqual(["failed", "BODY_MISMATCH"]);
    expect(server.bytesOf("k")).toBeUndefined();
  });

  test("that change between their readings are refused by their checksum", async () => {
    let opened = 0;
    const body = { size: 1000, open: () => streamed(patterned(1000).fill(opened++ === 0 ? 1 : 2)).open() };
    const server = await scriptedGcs();
    const result = await storeOn(vendor, server).put("k", body, create);
    expect([result.outcome, code(result)]).toEqual(["failed", "CORRUPT"]);
    expect(server.bytesOf("k")).toBeUndefined();
  });

  test("whose source fails are failed with its error, and closed", async () => {
    const broken = new Error("the disk broke");
    let closed = 0;
    const body = {
      size: 300_000,
      async *open() {
        try {
          yield patterned(100_000);
          if (closed > 0) throw broken;
          yield patterned(200_000);
        } finally {
          closed++;
        }
      },
    };
    const server = await scriptedGcs();
    expect(await storeOn(vendor, server).put("k", body, create)).toEqual({ outcome: "failed", error: broken });
    expect(closed).toBe(2);
  });

  test("that stall end with the signal", async () => {
    const abort = new AbortController();
    let reached = (): void => undefined;
    const waiting = new Promise<void>((resolve) => (reached = resolve));
    let opened = 0;
    const body = {
      size: 200_000,
      async *open() {
        yield patterned(100_000);
        if (opened++ > 0) await new Promise<never>(() => reached());
        yield patterned(100_000);
      },
    };
    const server = await scriptedGcs();
    const done = storeOn(vendor, server).put("k", body, { mode: "create", signal: abort.signal });
    await waiting;
    abort.abort();
    const result = await done;
    expect(code(result)).toBe("CANCELED");
    expect(server.bytesOf("k")).toBeUndefined();
  });
});
