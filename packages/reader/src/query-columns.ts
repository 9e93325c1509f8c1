import type { CaptureSchema } from "@holdfast/pack-format";
import { plainType, quoteIdentifier } from "@holdfast/indexer/catalog";
import { ReaderError } from "./reader-error.js";

/** A column that queries may filter or order by. */
export type QueryColumn = {
  /** Name in queries. */
  readonly name: string;
  /** Expression over the record table `r`. A UUID is its text: the bare type sorts by its low half first. */
  readonly sql: string;
  /** ClickHouse type of a value that it is compared with. */
  readonly type: string;
  readonly nullable: boolean;
};

const systemColumns: readonly QueryColumn[] = [
  { name: "captureId", sql: "r.`capture_id`", type: "String", nullable: false },
  { name: "capturedAtNs", sql: "r.`captured_at_ns`", type: "UInt64", nullable: false },
  { name: "tenant", sql: "r.`tenant`", type: "String", nullable: false },
  { name: "session", sql: "r.`session`", type: "String", nullable: false },
];

/** The columns of a schema that queries may use: the four of every record, and fields that hold one value. */
export function queryColumns(schema: CaptureSchema): ReadonlyMap<string, QueryColumn> {
  const fields = Object.entries(schema.fields).flatMap(([name, type]): QueryColumn[] => {
    if (/^(Array|Map)\(/.test(type)) return [];
    const plain = plainType(type);
    const column = `r.${quoteIdentifier(name)}`;
    const isText = plain === "UUID";
    return [
      {
        name,
        sql: isText ? `toString(${column})` : column,
        type: isText ? "String" : plain,
        nullable: type.includes("Nullable("),
      },
    ];
  });
  return new Map([...systemColumns, ...fields].map((column) => [column.name, column]));
}

/** The column, or QUERY_INVALID with the names that may be used. */
export function columnFor(columns: ReadonlyMap<string, QueryColumn>, name: string, use: string): QueryColumn {
  const column = columns.get(name);
  if (column !== undefined) return column;
  throw new ReaderError(
    "QUERY_INVALID",
    `${use} names ${JSON.stringify(name)}; use one of ${[...columns.keys()].join(", ")} (arrays and maps cannot be used)`,
  );
}
