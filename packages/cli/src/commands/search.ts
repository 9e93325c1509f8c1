import type { CaptureSchema } from "@holdfast/pack-format";
import type { FoundRecord, Where } from "@holdfast/reader";
import { bytes, captureIdWidth, cell, counted, json, table, timeOfNs } from "../format.js";
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
    const snapshot = await snapshotAt(reader, flags.snapshot, io);
    const cursor = flags.cursor === undefined ? {} : { cursor: flags.cursor };
    const page = await snapshot.search({ where, limit, ...cursor, signal: io.signal });
    if (flags.json === true) {
      for (const record of page.records) io.out.write(`${json(asJson(record))}\n`);
    } else if (page.records.length > 0) {
      io.out.write(recordTable(schema, page.records, io.out.columns));
    }
    const found = `${counted(page.records.length, "record")} of snapshot ${snapshot.version.toString()}`;
    const next =
      page.cursor === null ? "" : `; there are more: --snapshot ${snapshot.version.toString()} --cursor ${page.cursor}`;
    io.err.write(`${found}${next}\n`);
  });
}

function asJson(record: FoundRecord<CaptureSchema>): unknown {
  const { captureId, capturedAtNs, scope, fields, pack, payloadBytes } = record;
  return { captureId, capturedAtNs, ...scope, fields, payloadBytes, pack };
}

type Record = FoundRecord<CaptureSchema>;
type Column = { readonly head: string; readonly right?: boolean; readonly of: (r: Record) => string };

function recordTable(schema: CaptureSchema, records: readonly Record[], width: number | undefined): string {
  const fieldsOf = (r: Record): Readonly<{ [name: string]: unknown }> => r.fields;
  const columns: Column[] = [
    { head: "capture id", of: (r) => cell(r.captureId, captureIdWidth) },
    { head: "captured at (UTC)", of: (r) => timeOfNs(r.capturedAtNs) },
    { head: "payload", right: true, of: (r) => bytes(r.payloadBytes) },
    ...schema.orderBy.map((head): Column => ({ head, of: (r) => cell(fieldsOf(r)[head], 20) })),
    { head: "session", of: (r) => cell(r.scope.session, 20) },
  ];
  // On a terminal the last columns give way to its width; in a pipe nothing is left out.
  for (let used = columns.length; ; used -= 1) {
    const shown = columns.slice(0, used);
    const text = table(shown, records.map((r) => shown.map((c) => c.of(r)))); // prettier-ignore
    if (width === undefined || used <= 3 || Math.max(...text.split("\n").map((l) => l.length)) <= width) return text;
  }
}
