import type { ClickHouseClient } from "@clickhouse/client";
import type { Clock } from "@holdfast/deadline-http";
import type { ObjectStore } from "@holdfast/object-store";
import type { CaptureSchema, FieldValues, RecordLocator, Scope } from "@holdfast/pack-format";

export type ReaderOptions<S extends CaptureSchema> = {
  /** The caller's client; the reader binds it to its deadlines and never closes it. */
  readonly client: ClickHouseClient;
  /** Database of the catalog. Default: the client's own. */
  readonly database?: string;
  readonly schema: S;
  /** Where the packs lie. */
  readonly store: ObjectStore;
  /** Bound of one request, to ClickHouse or to the store. Default 60000. */
  readonly requestTimeoutMs?: number;
  readonly clock?: Clock;
};

/** Reads one catalog. Holds no connection of its own; closing it refuses further calls. */
export interface Reader<S extends CaptureSchema> extends AsyncDisposable {
  /**
   * Pins a snapshot: the newest visible version, or the given one. What a snapshot shows never changes.
   * SNAPSHOT_NOT_FOUND for a version above the newest.
   */
  snapshot(o?: { version?: bigint; signal?: AbortSignal }): Promise<Snapshot<S>>;
  close(): Promise<void>;
}

export interface Snapshot<S extends CaptureSchema> {
  /** 0 when nothing was published yet. */
  readonly version: bigint;
  /** Number of records (distinct captureIds) that a search with this filter would show. */
  count(q?: { where?: Where<S>; signal?: AbortSignal }): Promise<number>;
  /**
   * Records in a fixed order: by `orderBy`, then by captureId. Default order: capturedAtNs. `limit` 1..10000, default 1000.
   * `cursor` of the answer continues behind its last record, null when there is none; it is valid for the same query at
   * the same version only (CURSOR_INVALID). QUERY_INVALID names the column and what is allowed.
   */
  search(q?: SearchQuery<S>): Promise<{ records: readonly FoundRecord<S>[]; cursor: string | null }>;
  /** One record by its captureId, or null. */
  get(captureId: string, o?: { signal?: AbortSignal }): Promise<FoundRecord<S> | null>;
  /**
   * Payloads of found records, in the order given, with their checksums verified. Neighbouring ranges of an object are
   * fetched in one request. At most about `byteLimit` bytes (default 64 MiB) are held at a time; one larger record is
   * read alone.
   */
  read(
    records: readonly FoundRecord<S>[],
    o?: { signal?: AbortSignal; byteLimit?: number },
  ): AsyncIterable<{ record: FoundRecord<S>; payload: Uint8Array }>;
}

export type SearchQuery<S extends CaptureSchema> = {
  readonly where?: Where<S>;
  readonly orderBy?: readonly Order<S>[];
  readonly limit?: number;
  readonly cursor?: string;
  readonly signal?: AbortSignal;
};

/** Names that queries may use: the schema's fields and these four. */
export type ColumnName<S extends CaptureSchema> =
  (keyof FieldValues<S> & string) | "tenant" | "session" | "captureId" | "capturedAtNs";

export type Order<S extends CaptureSchema> =
  ColumnName<S> | { readonly column: ColumnName<S>; readonly descending?: boolean };

/** Equal to a value, one of several, or inside a range (all given bounds hold). All columns of a filter must match. */
export type Condition<V> =
  | V
  | readonly V[]
  | {
      readonly gte?: NonNullable<V>;
      readonly gt?: NonNullable<V>;
      readonly lte?: NonNullable<V>;
      readonly lt?: NonNullable<V>;
    };

type SystemValues = {
  readonly tenant: string;
  readonly session: string;
  readonly captureId: string;
  readonly capturedAtNs: bigint;
};

export type Where<S extends CaptureSchema> = {
  readonly [C in keyof FieldValues<S> & string]?: Condition<FieldValues<S>[C]>;
} & { readonly [C in keyof SystemValues]?: Condition<SystemValues[C]> };

export type FoundRecord<S extends CaptureSchema> = {
  readonly captureId: string;
  readonly capturedAtNs: bigint;
  readonly scope: Scope;
  readonly fields: FieldValues<S>;
  readonly pack: { readonly packId: string; readonly storeId: string; readonly key: string };
  readonly locator: RecordLocator;
  readonly payloadBytes: number;
};
