import type { CaptureSchema } from "@holdfast/pack-format";
import { fieldColumns, type Column } from "./columns.js";
import type { CatalogTables } from "./tables.js";

/** Version of the tables themselves. A process works only with its own: neither an older nor a newer one is readable. */
export const layoutVersion = 1;

/** A row of `<catalog>_schema_stamp`. The row with the greatest `schema_version` counts. */
export type StampRow = {
  readonly layout_version: number;
  readonly schema_version: number;
  /** JSON: `{ "fields": { name: type }, "orderBy": [name] }` */
  readonly schema_json: string;
  readonly applied_at_ns: string;
};

type SchemaShape = Pick<CaptureSchema, "version" | "fields" | "orderBy">;

/**
 * How a catalog and a capture schema fit:
 *
 * - `equal`: same fields.
 * - `catalog-ahead`: the catalog has all our fields and more. Reading and writing works; the additional columns get defaults.
 * - `schema-ahead`: we have all fields of the catalog and more (`added`); the catalog must be extended before we write.
 * - `newer-layout`, `older-layout`, `mismatch`: refused; `problem` says what differs and what to do.
 */
export type StampVerdict =
  | { readonly verdict: "equal" | "catalog-ahead" }
  | { readonly verdict: "schema-ahead"; readonly added: readonly Column[] }
  | { readonly verdict: "newer-layout" | "older-layout" | "mismatch"; readonly problem: string };

/** SELECT of the stamp that counts: one row, or none. */
export function stampStatement(tables: Pick<CatalogTables, "stamp">): string {
  return (
    `SELECT layout_version, schema_version, schema_json, toString(applied_at_ns) AS applied_at_ns FROM ${tables.stamp} ` +
    `ORDER BY layout_version DESC, schema_version DESC LIMIT 1`
  );
}

/** What the stamp says of a schema. */
export function stampJson(schema: Pick<CaptureSchema, "fields" | "orderBy">): string {
  return JSON.stringify({ fields: schema.fields, orderBy: schema.orderBy });
}

/** Decides whether this process may use a catalog with this stamp. Pure; the caller turns a refusal into its own error. */
export function compareStamp(stamp: StampRow, schema: SchemaShape): StampVerdict {
  const layout = compareLayout(stamp.layout_version);
  if (layout !== null) return layout;
  const stamped = parseStampJson(stamp.schema_json);
  if (stamped === null) return mismatch(`its stamp is not readable: ${stamp.schema_json.slice(0, 200)}`);
  const ours = new Map(fieldColumns(schema).map((column) => [column.name, column.type]));
  for (const [name, type] of ours) {
    const theirs = stamped.fields.get(name);
    if (theirs !== undefined && sameType(theirs, type)) continue;
    if (theirs !== undefined) {
      return mismatch(`field ${name} is ${theirs} in the catalog and ${type} in the schema; a field keeps its type`);
    }
  }
  if (stamped.orderBy.join("\n") !== schema.orderBy.join("\n")) {
    return mismatch(
      `the catalog is ordered by (${stamped.orderBy.join(", ")}) and the schema by (${schema.orderBy.join(", ")}); ` +
        `orderBy cannot change`,
    );
  }
  const added = fieldColumns(schema).filter((column) => !stamped.fields.has(column.name));
  const dropped = [...stamped.fields.keys()].filter((name) => !ours.has(name));
  return compareFieldSets({ stampedVersion: stamp.schema_version, schema, added, dropped });
}

function compareFieldSets(o: {
  stampedVersion: number;
  schema: SchemaShape;
  added: readonly Column[];
  dropped: readonly string[];
}): StampVerdict {
  const { stampedVersion, schema, added, dropped } = o;
  const names = added.map((column) => column.name).join(", ");
  if (added.length > 0 && dropped.length > 0) {
    return mismatch(`the schema adds ${names} and lacks ${dropped.join(", ")}; fields may only be added`);
  }
  if (added.length > 0 && schema.version <= stampedVersion) {
    return mismatch(
      `the schema adds ${names} but its version ${String(schema.version)} is not above the catalog's ${String(stampedVersion)}; ` +
        `raise the version with every added field`,
    );
  }
  if (dropped.length > 0 && schema.version >= stampedVersion) {
    return mismatch(
      `the schema (version ${String(schema.version)}) lacks ${dropped.join(", ")}, which the catalog's version ` +
        `${String(stampedVersion)} has; fields may only be added`,
    );
  }
  if (schema.version > stampedVersion) return { verdict: "schema-ahead", added };
  return { verdict: schema.version < stampedVersion ? "catalog-ahead" : "equal" };
}

function compareLayout(layout: number): StampVerdict | null {
  if (layout === layoutVersion) return null;
  const both = `catalog layout is ${String(layout)}, this version works with ${String(layoutVersion)}`;
  if (layout > layoutVersion) {
    return { verdict: "newer-layout", problem: `${both}; upgrade the @holdfast packages of this process` };
  }
  return {
    verdict: "older-layout",
    problem: `${both}; drop the catalog's tables and index the bucket again, or use the older packages`,
  };
}

function mismatch(problem: string): StampVerdict {
  return { verdict: "mismatch", problem };
}

function sameType(a: string, b: string): boolean {
  return a.replace(/\s+/g, "") === b.replace(/\s+/g, "");
}

function parseStampJson(text: string): { fields: Map<string, string>; orderBy: readonly string[] } | null {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  if (typeof value !== "object" || value === null || !("fields" in value) || !("orderBy" in value)) return null;
  const { fields, orderBy } = value;
  if (typeof fields !== "object" || fields === null || !Array.isArray(orderBy)) return null;
  const entries = Object.entries(fields as Record<string, unknown>);
  if (!entries.every((entry): entry is [string, string] => typeof entry[1] === "string")) return null;
  if (!orderBy.every((name): name is string => typeof name === "string")) return null;
  return { fields: new Map(entries), orderBy };
}
