import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { EmbeddedError } from "./errors.js";

/** One connection of the engine; opaque. */
export type NativeConnection = { readonly __native: "connection" };
export type NativeResult = { bytes: Uint8Array; elapsed: number; rowsRead: number; bytesRead: number };
export type NativeInsertResult = { rowsWritten: number; bytesWritten: number; elapsed: number };
export type NativeClass = { statementCount: number; queryClass: number };

/**
 * The functions of chdb's addon that we use. They lie below its documented interface (which cannot read a spooled body with a row
 * count, nor count statements), so chdb is pinned to the exact version and the names are checked here.
 */
export type Native = {
  CreateConnection(path: string, args: string[]): NativeConnection;
  CloseConnection(connection: NativeConnection): void;
  QueryAsyncConnection(connection: NativeConnection, sql: string, format: string): Promise<NativeResult>;
  InsertRawAsyncConnection(
    connection: NativeConnection,
    sql: string,
    data: Buffer,
    countLines: boolean,
  ): Promise<NativeInsertResult>;
  DurableClassifyAsync(connection: NativeConnection, sql: string, database: string | null): Promise<NativeClass>;
};

const needed = [
  "CreateConnection",
  "CloseConnection",
  "QueryAsyncConnection",
  "InsertRawAsyncConnection",
  "DurableClassifyAsync",
] as const satisfies readonly (keyof Native)[];

function loadAddon(): unknown {
  const require = createRequire(import.meta.url);
  const path = join(dirname(require.resolve("chdb/package.json")), "dist", "loader.js");
  return (require(path) as { loadNative(): unknown }).loadNative();
}

/** Loads the engine's addon into this process. ENGINE_UNSUPPORTED when there is none for this platform, or not the one we know. */
export function loadNative(load: () => unknown = loadAddon): Native {
  let native: unknown;
  try {
    native = load();
  } catch (cause) {
    throw new EmbeddedError(
      "ENGINE_UNSUPPORTED",
      `the ClickHouse engine (npm chdb) cannot be loaded on ${process.platform}-${process.arch} with Node ${process.version}. ` +
        `It runs on glibc Linux and macOS, x64 and arm64; install without --no-optional, so that its platform package comes along. ` +
        `Cause: ${cause instanceof Error ? cause.message : String(cause)}`,
      { cause },
    );
  }
  const missing = needed.filter((name) => typeof (native as Record<string, unknown>)[name] !== "function");
  if (missing.length > 0) {
    throw new EmbeddedError(
      "ENGINE_UNSUPPORTED",
      `the installed chdb lacks ${missing.join(", ")}; install the exact version that @holdfast/clickhouse-embedded depends on`,
    );
  }
  return native as Native;
}
