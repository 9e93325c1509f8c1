import type { CaptureSchema } from "@holdfast/pack-format";
import type { FoundRecord, Where } from "@holdfast/reader";
import { bytes, cell, count, json, table, timeOfNs } from "../format.js";
import type { Io } from "../io.js";
import { withReader } from "../open.js";
import type { Peers } from "../peers.js";
import { type ConnectionFlags, readSettings, wholeNumber } from "../settings.js";
import { parseWhere } from "../where.js";
import { snapshotAt } from "./snapshot.js";

/** Flags of `holdfast search`. */
export interface SearchFlags extends ConnectionFlags {
  readonly where?: readonly string[];
  readonly limit?: string;
  readonly cursor?: string;
  readonly snapshot?: string;
  readonly json?: boolean;
}

/** `holdfast search`: records that match, as a table, or with `--json` one JSON object a line. */
export async function search(flags: SearchFlags, io: Io, peers: Peers): Promise<void> {
  const limit = wholeNumber("--limit", flags.limit ?? "20", 1);
  const settings = await readSettings(flags, io);
  await withReader(settings, io, peers, async ({ schema, reader }) => {
    // The reader checks columns and values again; here they are checked to say which clause is wrong.
    const where = parseWhere(flags.where ?? [], schema) as Where<CaptureSchema>;
    const snapshot = await snapshotAt(reader, flags.snapshot);
    const cursor = flags.cursor === undefined ? {} : { cursor: flags.cursor };
    const page = await snapshot.search({ where, limit, ...cursor, signal: io.signal });
    if (flags.json === true) {
      for (const record of page.records) io.out.write(`${json(asJson(record))}\n`);
    } else if (page.records.length > 0) {
      io.out.write(recordTable(schema, page.records));
    }
    const found = `${count(page.records.length)} records of snapshot ${snapshot.version.toString()}`;
    const next =
      page.cursor === null ? "" : `; there are more: --snapshot ${snapshot.version.toString()} --cursor ${page.cursor}`;
    io.err.write(`${found}${next}\n`);
  });
}

function asJson(record: FoundRecord<CaptureSchema>): unknown {
  const { captureId, capturedAtNs, scope, fields, pack, payloadBytes } = record;
  return { captureId, capturedAtNs, ...scope, fields, payloadBytes, pack };
}

function recordTable(schema: CaptureSchema, records: readonly FoundRecord<CaptureSchema>[]): string {
  const sorted = schema.orderBy.map((head) => ({ head }));
  const columns = [
    { head: "capture id" },
    { head: "captured at (UTC)" },
    { head: "session" },
    { head: "payload", right: true },
    ...sorted,
  ];
  const fieldsOf = (r: FoundRecord<CaptureSchema>): Readonly<Record<string, unknown>> => r.fields;
  const row = (r: FoundRecord<CaptureSchema>): string[] => [
    r.captureId,
    timeOfNs(r.capturedAtNs),
    cell(r.scope.session, 20),
    bytes(r.payloadBytes),
    ...schema.orderBy.map((name) => cell(fieldsOf(r)[name], 20)),
  ];
  return table(columns, records.map(row));
}
