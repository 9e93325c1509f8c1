import type { CaptureSchema, Codec, FieldValues } from "@holdfast/pack-format";
import { fieldColumns, jsonDecoder, type JsonValue } from "@holdfast/indexer/catalog";
import type { CursorKey } from "./cursor.js";
import type { FoundRecord } from "./reader-types.js";

/** Turns rows of `recordColumns` into records. Values beyond those columns are a search's key values. */
export function rowDecoder<S extends CaptureSchema>(
  schema: S,
): (row: readonly unknown[]) => { record: FoundRecord<S>; key: CursorKey } {
  const fields = fieldColumns(schema).map(({ name, type }) => ({ name, decode: jsonDecoder(type) }));
  const width = 4 + fields.length + 9;
  return (row) => {
    const [captureId, capturedAtNs, tenant, session] = row;
    const values = fields.map(({ name, decode }, at) => [name, decode(row[4 + at] as JsonValue)] as const);
    const [packId, storeId, key, blockOffset, blockBytes, codec, payloadOffset, payloadBytes, payloadCrc32] = row.slice(
      4 + fields.length,
    );
    const record: FoundRecord<S> = {
      captureId: captureId as string,
      capturedAtNs: BigInt(capturedAtNs as string),
      scope: { tenant: tenant as string, session: session as string },
      // The columns are the schema's fields by their types: the server has checked what the decoder takes.
      fields: Object.fromEntries(values) as FieldValues<S>,
      pack: { packId: packId as string, storeId: storeId as string, key: key as string },
      locator: {
        blockOffset: Number(blockOffset),
        blockBytes: Number(blockBytes),
        codec: codec as Codec,
        payloadOffset: Number(payloadOffset),
        payloadBytes: Number(payloadBytes),
        payloadCrc32: Number(payloadCrc32),
      },
      payloadBytes: Number(payloadBytes),
    };
    return { record, key: row.slice(width) as CursorKey };
  };
}
