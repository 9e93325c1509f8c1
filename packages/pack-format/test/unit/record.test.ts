// Goal: what belongs to every record is checked, on both sides of each bound. Method: tables over one good record.
import { describe, expect, it } from "vitest";
import { checkRecord, limits, type CaptureRecord } from "@holdfast/pack-format";
import { exampleRecord, exampleSchema, expectPackError } from "../support.js";

const good = exampleRecord(1);
const withParts = (over: Record<string, unknown>): CaptureRecord => ({ ...good, ...over });
const check = (over: Record<string, unknown>) => () => {
  checkRecord(exampleSchema, withParts(over));
};

describe("a record is taken", () => {
  it.each<[string, Record<string, unknown>]>([
    ["with a capture id that is no UUID", { captureId: "frame 1/état" }],
    ["with a capture id of 512 bytes", { captureId: "ü".repeat(256) }],
    ["with a tenant of one byte", { scope: { tenant: "t", session: "s" } }],
    ["taken in 1970", { capturedAtNs: 0n }],
    ["taken at the end of UInt64", { capturedAtNs: 2n ** 64n - 1n }],
    ["with an empty payload", { payload: new Uint8Array() }],
    ["with a Buffer as payload", { payload: Buffer.from("x") }],
    ["with a field that is given as undefined and not declared", { fields: { ...good.fields, extra: undefined } }],
  ])("%s", (_, over) => {
    expect(check(over)).not.toThrow();
  });
});

describe("a record is refused", () => {
  it.each<[string, Record<string, unknown>, string, string[]]>([
    ["without a capture id", { captureId: undefined }, "captureId", ["undefined"]],
    ["with an empty capture id", { captureId: "" }, "captureId", ["1 to 512", "0 bytes"]],
    ["with a capture id of 514 bytes", { captureId: "ü".repeat(257) }, "captureId", ["514 bytes"]],
    ["with half a character in its id", { captureId: "\ud834" }, "captureId", ["surrogate"]],
    ["without a scope", { scope: undefined }, "scope.tenant", ["undefined"]],
    ["with an empty tenant", { scope: { tenant: "", session: "s" } }, "scope.tenant", ["1 to 512"]],
    ["with a session of 513 bytes", { scope: { tenant: "t", session: "s".repeat(513) } }, "scope.session", ["513"]],
    ["taken at a number", { capturedAtNs: 5 }, "capturedAtNs", ["bigint", "number 5"]],
    ["taken before 1970", { capturedAtNs: -1n }, "capturedAtNs", ["-1n"]],
    ["taken after UInt64", { capturedAtNs: 2n ** 64n }, "capturedAtNs", ["18446744073709551615"]],
    ["with a text as payload", { payload: "x" }, "payload", ["Uint8Array"]],
    ["with a view that is no Uint8Array as payload", { payload: new Float32Array(1) }, "payload", ["4 bytes"]],
    ["without fields", { fields: null }, "fields", ["null"]],
    ["with a field missing", { fields: { ...good.fields, step: undefined } }, "step", ["UInt64", "missing"]],
    ["with a field too many", { fields: { ...good.fields, extra: 1 } }, "extra", ["not in schema example version 1"]],
  ])("%s", async (_, over, field, parts) => {
    const error = await expectPackError(check(over), "RECORD_INVALID", field, ...parts);
    expect(error.field).toBe(field);
  });

  it("with a payload of one byte over the limit, and taken at the limit", async () => {
    // Pages of a fresh buffer are not touched by the check, so this takes no memory.
    const payload = new Uint8Array(limits.payloadBytes + 1);
    await expectPackError(check({ payload }), "RECORD_TOO_LARGE", "268435457", "268435456");
    expect(check({ payload: payload.subarray(1) })).not.toThrow();
  });
});
