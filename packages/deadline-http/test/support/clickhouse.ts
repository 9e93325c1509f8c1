// Bound clients for tests: quiet, and closed when the test is over.
import { monitorEventLoopDelay } from "node:perf_hooks";
import {
  ClickHouseLogLevel,
  createClient,
  type ClickHouseClient,
  type ClickHouseClientConfigOptions,
} from "@clickhouse/client";
import { onTestFinished } from "vitest";
import { bind, type BindOptions } from "@holdfast/deadline-http/clickhouse";

export function plainClient(url: string, o: ClickHouseClientConfigOptions = {}): ClickHouseClient {
  const client = createClient({ url, log: { level: ClickHouseLogLevel.OFF }, request_timeout: 20_000, ...o });
  onTestFinished(() => client.close());
  return client;
}

export function boundClient(
  url: string,
  o: BindOptions = {},
  config: ClickHouseClientConfigOptions = {},
): ClickHouseClient {
  return bind(plainClient(url, config), o);
}

export interface Failed {
  readonly code?: string;
  readonly outcome?: string;
  readonly timedOut?: boolean;
  readonly serverCode?: number;
  readonly httpStatus?: number;
  readonly bound?: { readonly name: string; readonly ms: number };
  readonly message: string;
  /** How long it took, less what the event loop was held up meanwhile (by a busy machine). */
  readonly tookMs: number;
}

/** Up to 20 ms is a free loop. */
const heldUp = (ms: number): number => (ms > 20 ? ms : 0);

/** The error of a call that must fail, and how long it took. */
export async function failure(call: () => Promise<unknown>): Promise<Failed> {
  const start = performance.now();
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  try {
    await call();
  } catch (error) {
    return Object.assign(error as Failed, { tookMs: performance.now() - start - heldUp(delay.max / 1e6) });
  } finally {
    delay.disable();
  }
  throw new Error("it should have failed");
}

export const read = (client: ClickHouseClient, query = "SELECT a FROM t"): Promise<unknown[]> =>
  client.query({ query, format: "JSONEachRow" }).then((result) => result.json());

export const write = (client: ClickHouseClient): Promise<unknown> =>
  client.insert({ table: "t", values: [{ a: 1 }], format: "JSONEachRow" });
