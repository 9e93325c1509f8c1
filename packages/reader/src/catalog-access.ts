import type { ClickHouseClient } from "@clickhouse/client";
import type { Clock } from "@holdfast/deadline-http";
import { bind } from "@holdfast/deadline-http/clickhouse";
import { ReaderError } from "./reader-error.js";

export type Parameters = Readonly<Record<string, unknown>>;

/** Reads of one catalog: each bounded by the deadline scope in force, by `requestTimeoutMs` and by the caller's signal. */
export interface CatalogAccess {
  /** Rows as arrays, 64-bit integers as strings. `deciding`: sees every publish that was answered before. */
  rows(
    statement: string,
    parameters: Parameters,
    o?: { signal?: AbortSignal | undefined; deciding?: boolean },
  ): Promise<readonly (readonly unknown[])[]>;
  /** How the catalog is named in messages. */
  readonly name: string;
}

export function catalogAccess(o: {
  client: ClickHouseClient;
  name: string;
  requestTimeoutMs: number;
  clock: Clock | undefined;
}): CatalogAccess {
  const { name, requestTimeoutMs } = o;
  const bound = bind(o.client, { requestTimeoutMs, ...(o.clock === undefined ? {} : { clock: o.clock }) });
  return {
    name,
    async rows(statement, parameters, call = {}) {
      try {
        const result = await bound.query({
          query: statement,
          format: "JSONCompactEachRow",
          query_params: { ...parameters },
          clickhouse_settings: {
            output_format_json_quote_64bit_integers: 1,
            ...(call.deciding === true ? { select_sequential_consistency: "1" } : {}),
          },
          use_multipart_params_auto: true,
          ...(call.signal === undefined ? {} : { abort_signal: call.signal }),
        });
        return await result.json<readonly unknown[]>();
      } catch (error) {
        throw explained(error, name);
      }
    },
  };
}

const unknownTable = 60;
const unknownDatabase = 81;
const accessCodes = new Set([192, 193, 194, 497, 516]);

/** Errors that have something to say beyond the request become ReaderErrors; the others go on as they are. */
function explained(error: unknown, name: string): unknown {
  if (!(error instanceof Error) || !("code" in error) || error.code !== "REQUEST_FAILED") return error;
  const server = "serverCode" in error ? error.serverCode : undefined;
  const o = { cause: error };
  if (server === unknownTable || server === unknownDatabase) {
    return new ReaderError(
      "CATALOG_NOT_FOUND",
      `there is no catalog ${name} here: ${error.message}; start a publisher with this schema once, or name the database it uses`,
      o,
    );
  }
  if (typeof server === "number" && accessCodes.has(server)) {
    return new ReaderError(
      "CATALOG_ACCESS_DENIED",
      `ClickHouse refuses to show catalog ${name}: ${error.message}; check the client's username and password, and that ` +
        `this user may read its tables`,
      o,
    );
  }
  if (server !== undefined) return error;
  return unreachable(error, name);
}

/** ClickHouse did not answer. */
export function unreachable(error: Error, name: string): ReaderError {
  return new ReaderError(
    "CATALOG_UNREACHABLE",
    `ClickHouse did not answer for catalog ${name}: ${error.message}; check that it runs and that the client's url is right`,
    { cause: error },
  );
}
