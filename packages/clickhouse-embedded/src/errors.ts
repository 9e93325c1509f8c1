/** What went wrong with the server process; callers branch on it. Errors of single queries are not these: they reach the client as ClickHouse gives them. */
export type EmbeddedErrorCode =
  | "DIRECTORY_IN_USE"
  | "DIRECTORY_UNWRITABLE"
  | "PORT_IN_USE"
  | "ENGINE_UNSUPPORTED"
  | "ENGINE_FAILED"
  | "ENGINE_EXITED"
  | "CONFIG_INVALID"
  | "CANCELED";

/**
 * Thrown by `startEmbeddedClickHouse` and by the methods of its handle.
 *
 * - `DIRECTORY_IN_USE` another process has the data directory open
 * - `DIRECTORY_UNWRITABLE` the data directory, or the temporary one below TMPDIR, cannot be created or written
 * - `PORT_IN_USE` the port is taken
 * - `ENGINE_UNSUPPORTED` no engine binary for this platform, or not the version this package was made for
 * - `ENGINE_FAILED` the engine or its process could not start
 * - `ENGINE_EXITED` the process ended without `stop()`
 * - `CONFIG_INVALID` an option is out of its range
 * - `CANCELED` the caller's signal ended the start
 */
export class EmbeddedError extends Error {
  override readonly name = "EmbeddedError";
  constructor(
    readonly code: EmbeddedErrorCode,
    message: string,
    options?: ErrorOptions,
  ) {
    super(`[${code}] ${message}`, options);
  }
}
