import type { ClickHouseClient } from "@clickhouse/client";
import { factsOf, LeaseError } from "./errors.js";

/** The logical row of a schema lease, which FINAL names. Times are ms since 1970, by the wall clock of the applier that wrote them. */
export interface SchemaLeaseRow {
  readonly holder: string;
  /** The stamp: with the holder it identifies the claim, and a release keeps it. */
  readonly acquiredMs: number;
  /** Of a released row: when it was released. */
  readonly expiresMs: number;
  readonly released: boolean;
}

/** Sends the statement by which every reader looks at a schema lease. Null: no row has this name. `client` is bound. */
export async function readSchemaLeaseRow(
  client: ClickHouseClient,
  query: string,
  name: string,
): Promise<SchemaLeaseRow | null> {
  const result = await client.query({ query, format: "JSONEachRow", query_params: { name } });
  const [row] = await result.json<{ holder: string; acquired_ms: string; expires_ms: string; released: number }>();
  if (row === undefined) return null;
  return {
    holder: row.holder,
    acquiredMs: Number(row.acquired_ms),
    expiresMs: Number(row.expires_ms),
    released: row.released !== 0,
  };
}

/** A claim stands until its expiry has passed: at that very millisecond it still does. */
export function isLiveClaim(row: SchemaLeaseRow, wallMs: number): boolean {
  return !row.released && row.expiresMs >= Math.floor(wallMs);
}

/** `SCHEMA_LEASE`, with the failure of the request as its cause. `what` completes "could not …". */
export function schemaLeaseError(name: string, what: string, cause: unknown): LeaseError {
  const { message, outcome } = factsOf(cause);
  return new LeaseError("SCHEMA_LEASE", `schema lease "${name}": could not ${what}: ${message}`, { cause, outcome });
}
