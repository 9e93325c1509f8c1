// Goal: the tensor schema has the reference's fields, and each of its rules holds on both sides of its bound.
// Method: tables over one good record; the same rules when a pack is read.
import { describe, expect, it } from "vitest";
import { checkRecord, defineCaptureSchema, systemColumns, tensor, type CaptureRecord } from "@holdfast/pack-format";
import { exampleRecord, expectPackError } from "../support.js";

const texts = [
  "experiment_id",
  "run_id",
  "request_id",
  "sequence_id",
  "model_id",
  "model_revision",
  "capture_policy_version",
  "hook_name",
] as const;

const fields = {
  ...Object.fromEntries(texts.map((name) => [name, "x"])),
  adapter_revision: null,
  layer_number: 0,
  producer_rank: 0,
  step_number: 0n,
  token_start: 5n,
  token_end: 5n,
  batch_position: 0,
  dtype: "float32",
  shape: [2, 3],
};

const record = (over: Record<string, unknown>, payloadBytes = 24): CaptureRecord => ({
  ...exampleRecord(0),
  fields: { ...fields, ...over },
  payload: new Uint8Array(payloadBytes),
});
const check = (over: Record<string, unknown>, payloadBytes?: number) => () => {
  checkRecord(tensor, record(over, payloadBytes));
};

describe("the tensor schema", () => {
  it("has the 21 fields of a tensor record, four of them system columns", () => {
    expect(Object.keys(tensor.fields)).toHaveLength(17);
    for (const name of ["capture_id", "captured_at_ns", "tenant", "session"]) expect(systemColumns).toContain(name);
  });

  it.each<[string, Record<string, unknown>, number?]>([
    ["a text of 512 bytes", { model_id: "ü".repeat(256) }],
    ["an adapter revision", { adapter_revision: "a" }],
    ["layer -1, which is no layer", { layer_number: -1 }],
    ["the last layer", { layer_number: 2147483647 }],
    ["an empty token range", { token_start: 2n ** 64n - 1n, token_end: 2n ** 64n - 1n }],
    ["a scalar", { shape: [] }, 4],
    ["an empty tensor", { shape: [2147483647, 0] }, 0],
    ["32 dimensions", { shape: Array.from({ length: 32 }, () => 1) }, 4],
    ["bool", { dtype: "bool" }, 6],
    ["uint8", { dtype: "uint8" }, 6],
    ["int8", { dtype: "int8" }, 6],
    ["int16", { dtype: "int16" }, 12],
    ["float16", { dtype: "float16" }, 12],
    ["bfloat16", { dtype: "bfloat16" }, 12],
    ["int32", { dtype: "int32" }, 24],
    ["int64", { dtype: "int64" }, 48],
    ["float64", { dtype: "float64" }, 48],
  ])("takes %s", (_, over, payloadBytes) => {
    expect(check(over, payloadBytes)).not.toThrow();
  });

  it.each<[string, string, Record<string, unknown>, string[], number?]>([
    ["an empty adapter revision", "adapter_revision", { adapter_revision: "" }, ["1 to 512", "0 bytes"]],
    ["layer -2", "layer_number", { layer_number: -2 }, ["-1", "-2"]],
    ["layer 2^31", "layer_number", { layer_number: 2 ** 31 }, ["2147483647"]],
    ["tokens that end before they start", "token_end", { token_end: 4n }, ["token_start 5", "got 4"]],
    ["an unknown dtype", "dtype", { dtype: "complex64" }, ["bfloat16", '"complex64"']],
    ["33 dimensions", "shape", { shape: Array.from({ length: 33 }, () => 1) }, ["32", "33"], 4],
    ["a dimension of 2^31", "shape", { shape: [2 ** 31, 0] }, ["2147483647", "2147483648"], 0],
    ["a payload of a byte less", "shape", {}, ["[2, 3] of float32", "24 bytes", "given 23 bytes"], 23],
    ["a payload of a byte more", "shape", {}, ["24 bytes", "given 25 bytes"], 25],
    [
      "a shape beyond all numbers",
      "shape",
      { shape: Array.from({ length: 32 }, () => 2147483647) },
      [(4n * (2n ** 31n - 1n) ** 32n).toString()],
    ],
  ])("refuses %s", async (_, field, over, parts, payloadBytes) => {
    const error = await expectPackError(check(over, payloadBytes), "RECORD_INVALID", field, ...parts);
    expect(error.field).toBe(field);
  });

  it.each(texts)("refuses %s when it is empty or has 513 bytes", async (name) => {
    await expectPackError(check({ [name]: "" }), "RECORD_INVALID", name, "0 bytes");
    await expectPackError(check({ [name]: "x".repeat(513) }), "RECORD_INVALID", name, "513 bytes");
  });

  it("keeps its rules under another name and with more fields", async () => {
    const { rules } = tensor;
    const mine = defineCaptureSchema({
      ...{ name: "mine", version: 2, orderBy: ["run_id"], ...(rules === undefined ? {} : { rules }) },
      fields: { ...tensor.fields, frame: "UInt32" },
    });
    const tooShort = record({ frame: 1 }, 20);
    const checkIt = () => {
      checkRecord(mine, tooShort);
    };
    await expectPackError(checkIt, "RECORD_INVALID", "given 20 bytes");
  });
});
