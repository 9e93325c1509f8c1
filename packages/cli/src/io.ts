import type { Clock } from "@holdfast/deadline-http";

/** Where text goes: `process.stdout` fits. */
export interface TextSink {
  write(text: string): unknown;
  readonly isTTY?: boolean;
  readonly columns?: number;
}

/** Everything of the outside world that the command uses, so that a test can stand in for it. */
export interface Io {
  /** Results. Only what was asked for goes here, so that it can be piped. */
  readonly out: TextSink;
  /** Errors and remarks. */
  readonly err: TextSink;
  /** Vendors' SDKs look into the environment of the process themselves, for keys and for `STORAGE_EMULATOR_HOST`. */
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Relative paths start here. */
  readonly cwd: string;
  readonly clock: Clock;
  /** Aborted by Ctrl-C: commands then stop cleanly. */
  readonly signal: AbortSignal;
}
