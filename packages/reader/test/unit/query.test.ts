// Goal: what a query may say, and that its values never become SQL text. Method: the pure parts of a search.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { defineCaptureSchema } from "@holdfast/pack-format";
import { tableReferences } from "@holdfast/indexer/catalog";
import { decodeCursor, encodeCursor, queryFingerprint } from "../../src/cursor.js";
import { behind, orderOf, orderSql } from "../../src/order.js";
import { queryColumns } from "../../src/query-columns.js";
import { countStatement, getStatement, rivalsStatement, searchStatement } from "../../src/statements.js";
import { filterOf } from "../../src/where.js";

const schema = defineCaptureSchema({
  name: "notes",
  version: 1,
  fields: {
    model: "LowCardinality(String)",
    layer: "Int8",
    step: "UInt64",
    ratio: "Nullable(Float64)",
    flag: "Bool",
    run: "UUID",
    shape: "Array(UInt32)",
  },
  orderBy: ["model"],
});
const columns = queryColumns(schema);
const tables = tableReferences("notes");
const invalid = (message: RegExp) =>
  expect.objectContaining({ code: "QUERY_INVALID", message: expect.stringMatching(message) as string }) as Error;

describe("filters", () => {
  it("values are parameters of their column's type", () =>
    expect(
      filterOf(columns, {
        model: "a' OR 1=1 --",
        layer: [1, 2],
        step: { gte: 5n, lt: 2n ** 64n - 1n },
        ratio: null,
        run: "018f0000-0000-7000-8000-000000000001",
        flag: true,
        tenant: "t",
        capturedAtNs: { gt: 7 },
        session: undefined,
      }),
    ).toMatchInlineSnapshot(`
      {
        "parameters": {
          "hf_w0": "a' OR 1=1 --",
          "hf_w1": [
            1n,
            2n,
          ],
          "hf_w2": 5n,
          "hf_w3": 18446744073709551615n,
          "hf_w4": "018f0000-0000-7000-8000-000000000001",
          "hf_w5": true,
          "hf_w6": "t",
          "hf_w7": 7n,
        },
        "sql": "r.\`model\` = {hf_w0:String} AND r.\`layer\` IN {hf_w1:Array(Int8)} AND (r.\`step\` >= {hf_w2:UInt64} AND r.\`step\` < {hf_w3:UInt64}) AND isNull(r.\`ratio\`) AND toString(r.\`run\`) = {hf_w4:String} AND r.\`flag\` = {hf_w5:Bool} AND r.\`tenant\` = {hf_w6:String} AND (r.\`captured_at_ns\` > {hf_w7:UInt64})",
      }
    `));

  it("a text of a user is never in the statement, whatever it is", () => {
    fc.assert(
      fc.property(fc.string({ minLength: 8 }), (text) => {
        fc.pre(!/^[\w\s`.()={}:]*$/.test(text));
        const filter = filterOf(columns, { model: text, tenant: [text], session: { gte: text } });
        const order = orderOf(columns, ["model"]);
        const { sql } = searchStatement({ tables, schema, filter, order, after: [text, text, text] });
        expect(sql).not.toContain(text);
      }),
    );
  });

  it.each<[Record<string, unknown>, RegExp]>([
    [{ colour: "red" }, /where names "colour"; use one of captureId, .*model/],
    [{ shape: [1] }, /arrays and maps cannot be used/],
    [{ layer: 128 }, /layer \(Int8\) .* whole number from -128 to 127/],
    [{ layer: 1.5 }, /whole number/],
    [{ layer: "1" }, /"1"/],
    [{ step: -1n }, /from 0 to 18446744073709551615/],
    [{ step: { between: 1n } }, /bound between; use gte, gt, lte or lt/],
    [{ step: {} }, /range without a bound/],
    [{ ratio: NaN }, /a finite number/],
    [{ flag: 1 }, /true or false/],
    [{ model: Array<string>(10_001).fill("m") }, /10001 values; at most 10000/],
    [{ constructor: 1 }, /where names "constructor"/],
  ])("what does not fit the schema is QUERY_INVALID (case %#)", (where, message) =>
    expect(() => filterOf(columns, where)).toThrow(invalid(message)),
  );

  it("an empty list matches nothing; a list with null matches null too", () => {
    expect(filterOf(columns, { layer: [] }).sql).toBe("0");
    expect(filterOf(columns, { ratio: [null] }).sql).toBe("isNull(r.`ratio`)");
    expect(filterOf(columns, { ratio: [1, null] }).sql).toBe(
      "(r.`ratio` IN {hf_w0:Array(Float64)} OR isNull(r.`ratio`))",
    );
  });
});

describe("order and cursor", () => {
  it("CT-25 every order ends in captureId and object, none has a bare UUID", () => {
    const order = orderOf(columns, [{ column: "run", descending: true }, "ratio"]);
    expect(orderSql(order)).toBe(
      "toString(r.`run`) DESC, isNull(r.`ratio`), ifNull(r.`ratio`, 0), r.`capture_id`, r.`object_key`",
    );
    expect(behind(order, ["u", 0, 1.5, "c", "o"]).sql).toMatch(/^toString\(r.`run`\) <= \{hf_k0:String\} AND \(/);
  });

  it("a column twice, an unknown or a list column is QUERY_INVALID", () => {
    expect(() => orderOf(columns, ["step", { column: "step", descending: true }])).toThrow(invalid(/step twice/));
    expect(() => orderOf(columns, ["shape"])).toThrow(invalid(/orderBy names "shape"/));
    expect(() => orderOf(columns, [7])).toThrow(invalid(/column names/));
  });

  it("a cursor comes back as it went, and is refused for another query, version or damage", () => {
    const query = { catalog: "notes", version: 4n, where: { step: { gte: 1n } }, order: ["+step"] };
    const fingerprint = queryFingerprint(query);
    const cursor = encodeCursor(fingerprint, ["1", "c", "o"]);
    expect(decodeCursor(cursor, fingerprint, 3)).toEqual(["1", "c", "o"]);
    const others = [
      { ...query, version: 5n },
      { ...query, where: { step: { gte: 2n } } },
      { ...query, order: ["-step"] },
      { ...query, catalog: "other" },
    ];
    for (const other of others) {
      expect(() => decodeCursor(cursor, queryFingerprint(other), 3)).toThrow(
        expect.objectContaining({ code: "CURSOR_INVALID" }) as Error,
      );
    }
    const bad = ["", "x", cursor.slice(2), Buffer.from('{"v":2}').toString("base64url"), "a".repeat(9000)];
    for (const each of [...bad, encodeCursor(fingerprint, ["1"])]) {
      expect(() => decodeCursor(each, fingerprint, 3)).toThrow(
        expect.objectContaining({ code: "CURSOR_INVALID" }) as Error,
      );
    }
    expect(queryFingerprint({ ...query, where: { tenant: undefined, step: { gte: 1n } } })).toBe(fingerprint);
  });
});

describe("statements", () => {
  const filter = filterOf(columns, { layer: 1 });
  const everything = filterOf(columns, {});
  const order = orderOf(columns, ["step"]);
  it.each([
    ["search", searchStatement({ tables, schema, filter, order, after: ["1", "c", "o"] }).sql],
    ["rivals", rivalsStatement(tables)],
    ["get", getStatement(tables, schema)],
    ["count", countStatement(tables, filter)],
    ["count of all", countStatement(tables, everything)],
  ])("%s", (_, text) => expect(text).toMatchSnapshot());
});
