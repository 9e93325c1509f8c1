import type { CaptureSchema } from "@holdfast/pack-format";
import { snapshotParameter, type CatalogTables } from "@holdfast/indexer/catalog";
import type { CatalogAccess } from "./catalog-access.js";
import { decodeCursor, encodeCursor, queryFingerprint, type CursorKey } from "./cursor.js";
import { readPayloads, type PayloadSource } from "./payloads.js";
import { orderOf, type SearchOrder } from "./order.js";
import { queryColumns, type QueryColumn } from "./query-columns.js";
import { ReaderError } from "./reader-error.js";
import type { FoundRecord, SearchQuery, Snapshot, Where } from "./reader-types.js";
import { rowDecoder } from "./rows.js";
import { countStatement, getStatement, rivalsStatement, searchStatement } from "./statements.js";
import { filterOf, type Filter } from "./where.js";

export type SnapshotContext<S extends CaptureSchema> = {
  readonly access: CatalogAccess;
  readonly tables: CatalogTables;
  readonly schema: S;
  readonly payloads: PayloadSource;
  /** Throws READER_CLOSED. */
  readonly checkOpen: () => void;
};

type Candidate<S extends CaptureSchema> = { readonly record: FoundRecord<S>; readonly key: CursorKey };
type Search = { readonly filter: Filter; readonly order: SearchOrder; readonly signal: AbortSignal | undefined };

const greatestLimit = 10_000;
const defaultLimit = 1000;

/** A snapshot pinned at one version. Every statement carries the version, so all of them see the same records. */
export class PinnedSnapshot<S extends CaptureSchema> implements Snapshot<S> {
  readonly #context: SnapshotContext<S>;
  readonly #columns: ReadonlyMap<string, QueryColumn>;
  readonly #decode: (row: readonly unknown[]) => Candidate<S>;
  readonly version: bigint;

  constructor(context: SnapshotContext<S>, version: bigint) {
    this.#context = context;
    this.version = version;
    this.#columns = queryColumns(context.schema);
    this.#decode = rowDecoder(context.schema);
  }

  async count(q: { where?: Where<S>; signal?: AbortSignal } = {}): Promise<number> {
    const filter = filterOf(this.#columns, { ...q.where });
    const rows = await this.#rows(countStatement(this.#context.tables, filter), filter.parameters, q.signal);
    return Number(rows[0]?.[0] ?? 0);
  }

  async get(captureId: string, o: { signal?: AbortSignal } = {}): Promise<FoundRecord<S> | null> {
    const { schema, tables } = this.#context;
    const [row] = await this.#rows(getStatement(tables, schema), { hf_id: captureId }, o.signal);
    return row === undefined ? null : this.#decode(row).record;
  }

  read(
    records: readonly FoundRecord<S>[],
    o: { signal?: AbortSignal; byteLimit?: number } = {},
  ): AsyncIterable<{ record: FoundRecord<S>; payload: Uint8Array }> {
    this.#context.checkOpen();
    return readPayloads(this.#context.payloads, records, o);
  }

  async search(q: SearchQuery<S> = {}): Promise<{ records: readonly FoundRecord<S>[]; cursor: string | null }> {
    const where = { ...q.where };
    const limit = checkLimit(q.limit ?? defaultLimit);
    const order = orderOf(this.#columns, q.orderBy ?? ["capturedAtNs"]);
    const search: Search = { filter: filterOf(this.#columns, where), order, signal: q.signal };
    const catalog = this.#context.schema.name;
    const fingerprint = queryFingerprint({ catalog, version: this.version, where, order: order.names });
    const after = q.cursor === undefined ? null : decodeCursor(q.cursor, fingerprint, order.keys.length);
    const { records, last } = await this.#page(search, limit, after);
    return { records, cursor: last === null ? null : encodeCursor(fingerprint, last) };
  }

  /**
   * Up to `limit` records behind `after`. Rows that another pack's record overrules are left out, so more may have to be
   * fetched than are shown. `last` is where to go on, null when nothing is left to show.
   */
  async #page(
    search: Search,
    limit: number,
    after: CursorKey | null,
  ): Promise<{ records: readonly FoundRecord<S>[]; last: CursorKey | null }> {
    const records: FoundRecord<S>[] = [];
    let last = after;
    for (let position = after; ;) {
      const wanted = limit - records.length + 1;
      const candidates = await this.#candidates(search, wanted, position);
      const shown = await this.#withoutOverruled(candidates, search.signal);
      for (const candidate of candidates) {
        position = candidate.key;
        if (!shown.has(candidate)) continue;
        if (records.length === limit) return { records, last };
        records.push(candidate.record);
        last = candidate.key;
      }
      if (candidates.length < wanted) return { records, last: null };
    }
  }

  async #candidates(search: Search, limit: number, after: CursorKey | null): Promise<readonly Candidate<S>[]> {
    const { schema, tables } = this.#context;
    const { sql, parameters } = searchStatement({ ...search, tables, schema, after });
    const rows = await this.#rows(sql, { ...parameters, hf_limit: limit }, search.signal);
    return rows.map(this.#decode);
  }

  async #withoutOverruled(
    candidates: readonly Candidate<S>[],
    signal: AbortSignal | undefined,
  ): Promise<ReadonlySet<Candidate<S>>> {
    if (candidates.length === 0) return new Set();
    const ids = [...new Set(candidates.map((candidate) => candidate.record.captureId))];
    const rows = await this.#rows(rivalsStatement(this.#context.tables), { hf_ids: ids }, signal);
    const winners = new Map(rows.map(([captureId, winner]) => [captureId as string, winner as readonly string[]]));
    return new Set(
      candidates.filter(({ record: { captureId, pack } }) => {
        const winner = winners.get(captureId);
        return winner === undefined || (winner[0] === pack.storeId && winner[1] === pack.key);
      }),
    );
  }

  #rows(sql: string, parameters: Readonly<Record<string, unknown>>, signal: AbortSignal | undefined) {
    this.#context.checkOpen();
    return this.#context.access.rows(sql, { ...parameters, [snapshotParameter]: this.version.toString() }, { signal });
  }
}

function checkLimit(limit: number): number {
  if (Number.isInteger(limit) && limit >= 1 && limit <= greatestLimit) return limit;
  throw new ReaderError(
    "QUERY_INVALID",
    `limit is ${String(limit)}; it takes a whole number from 1 to ${String(greatestLimit)}, the cursor gives the rest`,
  );
}
