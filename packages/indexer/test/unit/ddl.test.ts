// Goal: the tables are fixed to the character, so that a change of the layout is seen in review. Method: golden texts.
import { describe, expect, it } from "vitest";
import { defineCaptureSchema } from "@holdfast/pack-format";
import { catalogTables, columnsOf, recordPrimaryKey, recordSortKey, tableReferences } from "@holdfast/indexer/catalog";
import { addColumnsStatement, createTableStatement, tableDefinitions } from "../../src/schema/ddl.js";
import { stampInsert } from "../../src/schema/ensure.js";
import { probes } from "../support/packs.js";

const tables = tableReferences("probes", "lab");

describe("table definitions", () => {
  it("names are <catalog>_<role>", () =>
    expect(catalogTables("probes")).toEqual({
      record: "probes_record",
      inventory: "probes_pack_inventory",
      watermark: "probes_index_watermark",
      manifest: "probes_snapshot_manifest",
      versionClaim: "probes_version_claim",
      stamp: "probes_schema_stamp",
    }));

  it("every table's DDL is this", () => {
    const texts = tableDefinitions(probes).map((definition) => createTableStatement(definition, tables));
    expect(texts.join("\n\n")).toMatchSnapshot();
  });

  it("a replicated topology asks for replicated engines", () => {
    for (const definition of tableDefinitions(probes)) {
      const text = createTableStatement(definition, tables, { replicated: true });
      expect(text).toContain(`ENGINE = Replicated${definition.engine}`);
    }
  });

  it("a field added later becomes a column of the existing table", () =>
    expect(addColumnsStatement([{ name: "unit", type: "Nullable(String)" }], tables)).toBe(
      "ALTER TABLE `lab`.`probes_record` ADD COLUMN IF NOT EXISTS `unit` Nullable(String) AFTER `session`",
    ));

  it("the stamp is written only where none of its version, a later one, or of another layout stands", () =>
    expect(stampInsert(tables)).toMatch(
      /WHERE \(SELECT count\(\) FROM .* WHERE layout_version != \{layout:UInt32\} OR schema_version >= \{version:UInt32\}\) = 0$/,
    ));

  it("CT-25 no sort key has a bare UUID column, a user's UUID field included", () => {
    const schema = defineCaptureSchema({
      name: "ids",
      version: 1,
      fields: { run: "UUID", step: "UInt64" },
      orderBy: ["run", "step"],
    });
    expect(recordPrimaryKey(schema)).toEqual(["`tenant`", "toString(`run`)", "`step`", "`captured_at_ns`"]);
    const uuids = (definition: { columns: readonly { name: string; type: string }[] }) =>
      definition.columns.filter((column) => column.type.includes("UUID")).map((column) => `\`${column.name}\``);
    for (const definition of tableDefinitions(schema)) {
      expect(definition.sortKey.filter((key) => uuids(definition).includes(key))).toEqual([]);
    }
    expect(uuids({ columns: columnsOf(schema) })).toEqual(["`run`", "`pack_id`"]);
    expect(recordSortKey(schema).slice(-3)).toEqual(["`capture_id`", "`store_id`", "`object_key`"]);
  });
});
