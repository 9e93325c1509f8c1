// Goal: which catalogs a process may use, for every relation of layouts and field sets. Method: tables of cases over the
// two pure functions that decide it.
import { describe, expect, it } from "vitest";
import type { CaptureSchema } from "@holdfast/pack-format";
import { columnsOf, compareStamp, layoutVersion, stampJson, type StampRow } from "@holdfast/indexer/catalog";
import { classify, type CatalogState } from "../../src/schema/classify.js";
import { tableDefinitions } from "../../src/schema/ddl.js";
import { catalogTables } from "../../src/catalog/tables.js";

const schema = (version: number, fields: Record<string, string>, orderBy: string[] = ["a"]): CaptureSchema =>
  ({ name: "probes", version, fields, orderBy }) as CaptureSchema;

const one = schema(1, { a: "Int32", b: "String" });
const two = schema(2, { a: "Int32", b: "String", c: "Nullable(String)" });

const stampOf = (of: CaptureSchema, layout = layoutVersion): StampRow => ({
  layout_version: layout,
  schema_version: of.version,
  schema_json: stampJson(of),
  applied_at_ns: "1",
});

function complete(of: CaptureSchema): CatalogState {
  const names = catalogTables("probes");
  return {
    tables: tableDefinitions(of).map((definition) => ({
      name: names[definition.role],
      engine: definition.engine,
      engine_full: `${definition.engine}(${definition.versionColumn ?? ""}) ORDER BY x`,
      sorting_key: definition.sortKey.join(", ").replaceAll("`", ""),
    })),
    stamp: stampOf(of),
    recordColumns: columnsOf(of),
    hasData: true,
  };
}

describe("stamp", () => {
  it.each<[string, StampRow, CaptureSchema, string]>([
    ["the same", stampOf(one), one, "equal"],
    ["CT-25 a catalog with one more field is usable by the older process", stampOf(two), one, "catalog-ahead"],
    ["CT-25 a schema with one more field extends the catalog", stampOf(one), two, "schema-ahead"],
    ["CT-25 a newer layout is refused", stampOf(one, layoutVersion + 1), one, "newer-layout"],
    ["CT-25 an older layout is refused", stampOf(one, layoutVersion - 1), one, "older-layout"],
    ["a changed type", stampOf(one), schema(2, { a: "Int64", b: "String" }), "mismatch"],
    ["another order", stampOf(one), schema(1, { a: "Int32", b: "String" }, ["b"]), "mismatch"],
    ["an added field without a higher version", stampOf(one), schema(1, two.fields), "mismatch"],
    ["a dropped field", stampOf(one), schema(2, { a: "Int32" }), "mismatch"],
    ["one added, one dropped", stampOf(one), schema(2, { a: "Int32", c: "String" }), "mismatch"],
    ["a stamp that is not JSON", { ...stampOf(one), schema_json: "{" }, one, "mismatch"],
  ])("%s", (_, stamp, of, verdict) => expect(compareStamp(stamp, of).verdict).toBe(verdict));

  it("a refusal names the field, both types and the rule", () =>
    expect(compareStamp(stampOf(one), schema(2, { a: "Int64", b: "String" }))).toMatchObject({
      problem: "field a is Int32 in the catalog and Int64 in the schema; a field keeps its type",
    }));
});

describe("what is to be done with a catalog", () => {
  const without = (state: CatalogState, name: string): CatalogState => ({
    ...state,
    tables: state.tables.filter((table) => table.name !== name),
  });
  const changed = (name: string, change: Partial<CatalogState["tables"][number]>): CatalogState => ({
    ...complete(one),
    tables: complete(one).tables.map((table) => (table.name === name ? { ...table, ...change } : table)),
  });
  const empty: CatalogState = { tables: [], stamp: null, recordColumns: [], hasData: false };

  it.each<[string, CatalogState, CaptureSchema, object]>([
    ["nothing there: install", empty, one, { verdict: "install" }],
    ["all there: nothing to do", complete(one), one, { verdict: "complete" }],
    [
      "all there under replicated engines",
      changed("probes_record", { engine: "ReplicatedReplacingMergeTree" }),
      one,
      { verdict: "complete" },
    ],
    [
      "no data and no stamp: finish the install",
      { ...complete(one), stamp: null, hasData: false },
      one,
      { verdict: "install" },
    ],
    [
      "no data and a table missing: finish the install",
      { ...without(complete(one), "probes_record"), hasData: false },
      one,
      { verdict: "install", missing: ["record"] },
    ],
    ["data and no stamp", { ...complete(one), stamp: null }, one, { code: "CATALOG_UNSTAMPED" }],
    [
      "data and a table missing",
      without(complete(one), "probes_index_watermark"),
      one,
      { code: "CATALOG_SCHEMA_MISMATCH" },
    ],
    ["a foreign engine", changed("probes_record", { engine: "MergeTree" }), one, { code: "CATALOG_SCHEMA_MISMATCH" }],
    ["a foreign sort key", changed("probes_record", { sorting_key: "a" }), one, { code: "CATALOG_SCHEMA_MISMATCH" }],
    [
      "a foreign version column",
      changed("probes_record", { engine_full: "ReplacingMergeTree(x)" }),
      one,
      { code: "CATALOG_SCHEMA_MISMATCH" },
    ],
    ["a newer layout", { ...complete(one), stamp: stampOf(one, 99) }, one, { code: "CATALOG_NEWER" }],
    ["an older layout", { ...complete(one), stamp: stampOf(one, 0) }, one, { code: "CATALOG_SCHEMA_MISMATCH" }],
    ["a field more", complete(one), two, { verdict: "extend", added: [{ name: "c", type: "Nullable(String)" }] }],
    [
      "a column that the stamp promises and the table lacks",
      { ...complete(two), recordColumns: columnsOf(one) },
      two,
      { code: "CATALOG_SCHEMA_MISMATCH" },
    ],
  ])("%s", (_, state, of, expected) => expect(classify(state, of)).toMatchObject(expected));

  it.each([empty, complete(one)])("a refusal says what to do", (state) => {
    const verdict = classify({ ...state, hasData: true, stamp: null }, one);
    expect(verdict).toMatchObject({
      verdict: "refuse",
      problem: expect.stringContaining("index the bucket again") as string,
    });
  });
});
