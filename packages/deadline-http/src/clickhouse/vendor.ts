import type { ClientRequest } from "node:http";
import type { Readable } from "node:stream";
import type { ClickHouseClient, ClickHouseSettings, PingResult } from "@clickhouse/client";

/**
 * The parts of `@clickhouse/client` 1.23 that lie below its public methods, as far as they are used here. They are not
 * part of its documented surface: `internalsOf` checks what it finds and says so when it is something else.
 */
export interface VendorParams {
  readonly query: string;
  readonly clickhouse_settings?: ClickHouseSettings;
  readonly abort_signal?: AbortSignal;
  readonly query_id?: string;
  readonly values?: string | Readable;
  readonly ignore_error_response?: boolean;
  readonly decompress_response_stream?: boolean;
}

export interface VendorResult {
  readonly query_id: string;
  readonly stream: Readable;
  readonly response_headers?: Readonly<Record<string, string | string[] | undefined>> | undefined;
  readonly http_status_code?: number | undefined;
  readonly summary?: unknown;
}

export interface VendorPingParams {
  readonly select: boolean;
  readonly abort_signal?: AbortSignal;
}

/** What the public methods of the vendor's client call. */
export interface VendorConnection {
  query(params: VendorParams): Promise<VendorResult>;
  exec(params: VendorParams): Promise<VendorResult>;
  command(params: VendorParams): Promise<Omit<VendorResult, "stream">>;
  insert(params: VendorParams): Promise<Omit<VendorResult, "stream">>;
  ping(params: VendorPingParams): Promise<PingResult>;
  close(): Promise<void>;
}

/** The vendor's own connection makes its requests through this; another (an injected one) may not have it. */
export interface VendorSocketPool {
  createClientRequest(params: unknown): ClientRequest;
}

export interface JsonHandling {
  parse(text: string): unknown;
  stringify(value: unknown): string;
}

export interface VendorInternals {
  readonly connection: VendorConnection;
  readonly connectionParams: { readonly request_timeout: number };
  readonly jsonHandling: JsonHandling;
  readonly valuesEncoder: object;
}

const methods = ["query", "exec", "command", "insert", "ping", "close"] as const;

function has<K extends string>(value: unknown, key: K): value is Record<K, unknown> {
  return typeof value === "object" && value !== null && key in value;
}

/** Throws a TypeError when the client is not one that this adapter knows how to bind. */
export function internalsOf(client: ClickHouseClient): VendorInternals {
  const found: unknown = client;
  const known =
    has(found, "connection") &&
    methods.every((name) => has(found.connection, name) && typeof found.connection[name] === "function") &&
    has(found, "connectionParams") &&
    has(found, "jsonHandling") &&
    has(found, "valuesEncoder");
  if (!known) {
    throw new TypeError(
      "bind(client): this is not a client of @clickhouse/client 1.23 as this adapter knows it; " +
        "check the installed version against the peer dependency of @holdfast/deadline-http",
    );
  }
  return found as unknown as VendorInternals;
}

/** The parameters of the vendor's own connection, as far as they are used here. */
export function paramsOf(
  connection: VendorConnection,
): { readonly log_writer: { error(entry: unknown): void } } | null {
  if (!has(connection, "params") || !has(connection.params, "log_writer")) return null;
  const { log_writer } = connection.params;
  return has(log_writer, "error") ? (connection.params as { log_writer: { error(entry: unknown): void } }) : null;
}

/** The socket pool of the vendor's own connection, or null when there is none to watch. */
export function socketPoolOf(connection: VendorConnection): VendorSocketPool | null {
  if (!has(connection, "socketPool") || !has(connection.socketPool, "createClientRequest")) return null;
  return connection.socketPool as unknown as VendorSocketPool;
}
