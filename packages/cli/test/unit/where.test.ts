// Goal: a filter typed by a person becomes the filter that the reader takes, or an error that names the clause.
// Method: tables of clauses over one schema with a field of each kind.
import { defineCaptureSchema } from "@holdfast/pack-format";
import { describe, expect, it } from "vitest";
import { parseWhere } from "../../src/where.js";

const schema = defineCaptureSchema({
  name: "things",
  version: 1,
  fields: {
    model: "LowCardinality(String)",
    revision: "LowCardinality(Nullable(String))",
    layer: "Int32",
    step: "UInt64",
    score: "Float64",
    good: "Bool",
    shape: "Array(UInt32)",
  },
  orderBy: ["model"],
});

describe("parseWhere", () => {
  it.each([
    [["model=a"], { model: "a" }],
    [["model=a=b"], { model: "a=b" }],
    [["model="], { model: "" }],
    [["model=a", "model=b", "model=c"], { model: ["a", "b", "c"] }],
    [["revision=r1"], { revision: "r1" }],
    [["layer=-1"], { layer: -1 }],
    [["step=18446744073709551615"], { step: 18446744073709551615n }],
    [["step>=10", "step<20"], { step: { gte: 10n, lt: 20n } }],
    [["score>0.5"], { score: { gt: 0.5 } }],
    [["score<=1e3"], { score: { lte: 1000 } }],
    [["good=true"], { good: true }],
    [["tenant=t", "session=s"], { tenant: "t", session: "s" }],
    [["capture_id=x"], { captureId: "x" }],
    [["captured_at_ns>=5"], { capturedAtNs: { gte: 5n } }],
    [["model=a", "layer>3"], { model: "a", layer: { gt: 3 } }],
    [[], {}],
  ])("%j", (clauses, expected) => {
    expect(parseWhere(clauses, schema)).toEqual(expected);
  });

  it.each([
    ["colour=red", "things has no such column; it has model, revision, layer, step, score, good, shape, tenant"],
    ["constructor=x", "no such column"],
    ["model", "say column=value"],
    ["=a", "say column=value"],
    ["model!=a", "say column=value"],
    ["layer=1.5", "Int32 needs a whole number"],
    ["layer=", "Int32 needs a whole number"],
    ["step=0x10", "UInt64 needs a whole number"],
    ["score=", "Float64 needs a number"],
    ["score=NaN", "Float64 needs a number"],
    ["good=1", "Bool needs true or false"],
    ["shape=1", "a column of type Array(UInt32) cannot be searched from here"],
  ])("%s is refused", (clause, message) => {
    expect(() => parseWhere([clause], schema)).toThrow(
      expect.objectContaining({ code: "USAGE_INVALID", message: expect.stringContaining(message) as string }),
    );
  });

  it("values and a range on one column are refused in either order", () => {
    for (const clauses of [
      ["layer=1", "layer>0"],
      ["layer>0", "layer=1"],
    ]) {
      expect(() => parseWhere(clauses, schema)).toThrow("one column has either values or a range");
    }
  });
});
