// Goal: records are checked and copied when they are handed in, and the room reserved for one is never less than it takes.
// Method: random records against the real pack writer.
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { createPackWriter, defineCaptureSchema, type Codec } from "@holdfast/pack-format";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createIds } from "../../src/ids.js";
import { admitRecord, type RecordRules } from "../../src/records.js";
import { seeded } from "../support/spool.js";

const schema = defineCaptureSchema({
  name: "odd",
  version: 1,
  fields: {
    text: "String",
    shared: "LowCardinality(String)",
    count: "UInt64",
    ratio: "Float64",
    small: "Int8",
    maybe: "Nullable(String)",
    list: "Array(UInt32)",
    words: "Array(String)",
    tags: "Map(String, String)",
    id: "UUID",
  },
  orderBy: ["text"],
});
const clock = new VirtualClock({ wallMs: 1_700_000_000_123 });
const rules = (codec: Codec = "none"): RecordRules => ({
  schema,
  codec,
  maxRecordBytes: 1 << 20,
  clock,
  newId: createIds(clock, seeded(3)),
});

const uuid = "0191f0a0-0000-7000-8000-000000000001";
const fields = {
  text: "a",
  shared: "b",
  count: 1n,
  ratio: 0.5,
  small: -1,
  maybe: null,
  list: [1],
  words: ["x"],
  tags: { k: "v" },
  id: uuid,
};
const scope = { tenant: "t", session: "s" };

describe("a record", () => {
  it("gets a UUIDv7 and the wall time when it has none, and keeps its own otherwise", () => {
    const { record } = admitRecord(rules(), { scope, fields, payload: new Uint8Array(3) });
    expect(record.capturedAtNs).toBe(1_700_000_000_123_000_000n);
    expect(record.captureId).toMatch(/^018bcfe5-687b-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    const own = admitRecord(rules(), { captureId: "mine", capturedAtNs: 5n, scope, fields, payload: new Uint8Array() });
    expect(own.record).toMatchObject({ captureId: "mine", capturedAtNs: 5n });
  });

  it("is copied: fields, scope and exactly the viewed bytes", () => {
    const bytes = new Float32Array([1, 2, 3, 4]);
    const given = { scope: { ...scope }, fields: { ...fields, list: [1, 2] }, payload: bytes.subarray(1, 3) };
    const { record } = admitRecord(rules(), given);
    bytes.fill(0);
    given.fields.list.push(9);
    given.scope.tenant = "other";
    expect(new Float32Array(record.payload.buffer)).toEqual(new Float32Array([2, 3]));
    expect(record).toMatchObject({ scope, fields: { list: [1, 2] } });
  });

  it.each([
    ["a payload that is no view", { payload: "text" }, "RECORD_INVALID", /payload is string/],
    [
      "a payload over the limit",
      { payload: new Uint8Array((1 << 20) + 1) },
      "RECORD_TOO_LARGE",
      /spool\.maxRecordBytes is 1048576/,
    ],
    ["a field that is missing", { fields: { text: "a" } }, "RECORD_INVALID", /shared/],
    ["a field of another type", { fields: { ...fields, count: 1 } }, "RECORD_INVALID", /count.*bigint/],
    ["a field that is unknown", { fields: { ...fields, extra: 1 } }, "RECORD_INVALID", /extra/],
    // Red when copying makes an empty object of it.
    [
      "a Map as the value of a map",
      { fields: { ...fields, tags: new Map([["a", "b"]]) } },
      "RECORD_INVALID",
      /tags.*object/,
    ],
    ["no scope", { scope: undefined }, "RECORD_INVALID", /scope\.tenant/],
    ["too much metadata", { fields: { ...fields, text: "x".repeat(1 << 20) } }, "RECORD_TOO_LARGE", /fields.*payload/],
  ])("with %s is refused with the field and what to do", (_, changed, code, message) => {
    const given = { scope, fields, payload: new Uint8Array(), ...changed };
    expect(() => admitRecord(rules(), given as never)).toThrow(message);
    expect(() => admitRecord(rules(), given as never)).toThrow(expect.objectContaining({ code }) as Error);
  });

  it("never takes more room in a pack than was reserved for it, alone in its block or not", async () => {
    const text = fc.string({ unit: "grapheme", maxLength: 40 });
    const anyRecord = fc.record({
      captureId: fc.string({ unit: "grapheme-ascii", minLength: 1, maxLength: 60 }),
      payload: fc.uint8Array({ maxLength: 3000 }),
      fields: fc.record({
        text,
        shared: text,
        count: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
        ratio: fc.double({ noNaN: true, noDefaultInfinity: true }),
        small: fc.integer({ min: -128, max: 127 }),
        maybe: fc.option(text),
        list: fc.array(fc.nat({ max: 2 ** 32 - 1 }), { maxLength: 50 }),
        words: fc.array(text, { maxLength: 20 }),
        tags: fc.dictionary(text, text, { maxKeys: 8 }),
        id: fc.uuid(),
      }),
    });
    const packs = fc.uniqueArray(anyRecord, { minLength: 1, maxLength: 6, selector: (record) => record.captureId });
    await fc.assert(
      fc.asyncProperty(
        packs,
        fc.constantFrom<Codec>("none", "gzip"),
        fc.boolean(),
        async (records, codec, together) => {
          const writer = createPackWriter({ schema, packId: uuid, writerId: uuid, sequence: 0n, codec });
          const admitted = records.map((record) => admitRecord(rules(codec), { ...record, scope }));
          const groups = together ? [admitted] : admitted.map((each) => [each]);
          for (const group of groups) {
            const before = writer.projectedSize();
            await writer.encodeBlock(group.map(({ record }) => record));
            const reserved = group.reduce((sum, { packBytes }) => sum + packBytes, 0);
            expect(writer.projectedSize() - before).toBeLessThanOrEqual(reserved);
          }
          expect((await writer.finish()).packSize).toBe(writer.projectedSize());
        },
      ),
      { numRuns: 60 },
    );
  });
});
