const types: readonly (readonly [RegExp, string])[] = [
  [
    /^JSON(?:Strings|Compact|CompactStrings|Columns|CompactColumns|ColumnsWithMetadata|ObjectEachRow)?$/i,
    "application/json; charset=UTF-8",
  ],
  [/^JSON.*EachRow/i, "application/x-ndjson; charset=UTF-8"],
  [/^CSV/i, "text/csv; charset=UTF-8; header=absent"],
  [/^(?:TabSeparated|TSV)/i, "text/tab-separated-values; charset=UTF-8"],
  [
    /^(?:RowBinary|Native|Parquet|Arrow|ORC|Avro|MsgPack|BSON|Protobuf|CapnProto|Npy|RawBLOB)/i,
    "application/octet-stream",
  ],
  [/^XML/i, "application/xml; charset=UTF-8"],
];

/** The Content-Type of an output format. */
export function contentType(format: string): string {
  const type = types.find(([pattern]) => pattern.test(format))?.[1] ?? "text/plain; charset=UTF-8";
  return /WithNames/i.test(format) ? type.replace("header=absent", "header=present") : type;
}
