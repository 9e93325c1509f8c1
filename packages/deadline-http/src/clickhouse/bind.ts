import type { ClickHouseClient, ClickHouseSettings } from "@clickhouse/client";
import type { Clock } from "../clock.js";
import { checkMs } from "../clock.js";
import { ConfigError } from "../errors.js";
import { systemClock } from "../registry.js";
import { boundConnection } from "./connection.js";
import { exactIntegers } from "./integers.js";
import type { Attempt } from "./settings.js";
import { internalsOf, type VendorConnection } from "./vendor.js";

/** Options of {@link bind}. */
export interface BindOptions {
  /** Default: the machine's clock. */
  readonly clock?: Clock | undefined;
  /**
   * A bound of every call, from its beginning to the last byte of its body, attempts and pauses included; the tighter of
   * this and the scopes in force binds. Default: none, so that outside a scope only the client's own limits hold.
   */
  readonly requestTimeoutMs?: number | undefined;
  /**
   * Settings for this attempt, merged over all others. Called when the attempt has a connected socket, just before it is
   * written, so that a server cap made from `msLeft` ends by the deadline. An attempt whose `max_execution_time` from
   * here would end after the deadline is not sent. It may run in the async context of another request that freed the
   * socket: use what it is given, not `remainingMs()`.
   */
  readonly settings?: ((attempt: Attempt) => ClickHouseSettings) | undefined;
  /** Attempts of one call, the first included. Default 3. */
  readonly maxAttempts?: number | undefined;
}

/** Connections that bind made -> the vendor's, so that binding a bound client does not nest. */
const originals = new WeakMap<VendorConnection, VendorConnection>();

/**
 * The same client, of the same type, whose requests obey the scopes they are made in, end by their bound (bodies
 * included), are retried as far as that is safe, and fail with an error that carries `code`, `timedOut` and `outcome`.
 * It shares the sockets of `client`, which stays as it is; `close()` closes them for both.
 *
 * Statements carry `wait_end_of_query=1` and quoted 64-bit integers unless they set these themselves; bigints may be
 * inserted. Bodies have to be read inside the scope. `ping()` still never throws.
 *
 * Errors: `CONFIG_INVALID` for an option that cannot work; a TypeError for a client of another make.
 */
export function bind(client: ClickHouseClient, o: BindOptions = {}): ClickHouseClient {
  const { maxAttempts = 3, requestTimeoutMs = null } = o;
  if (requestTimeoutMs !== null) checkMs("requestTimeoutMs", requestTimeoutMs);
  if (!Number.isInteger(maxAttempts) || maxAttempts < 1) {
    throw new ConfigError(`maxAttempts is ${maxAttempts}; give a whole number of at least 1`);
  }
  const inner = internalsOf(client);
  const original = originals.get(inner.connection) ?? inner.connection;
  const connection = boundConnection(original, {
    clock: o.clock ?? systemClock,
    requestTimeoutMs,
    maxAttempts,
    settings: o.settings ?? null,
    idleTimeoutMs: inner.connectionParams.request_timeout,
  });
  originals.set(connection, original);
  const jsonHandling = exactIntegers(inner.jsonHandling);
  const valuesEncoder = Object.create(inner.valuesEncoder, { json: { value: jsonHandling } }) as object;
  return Object.create(client, {
    connection: { value: connection },
    jsonHandling: { value: jsonHandling },
    valuesEncoder: { value: valuesEncoder },
  }) as ClickHouseClient;
}
