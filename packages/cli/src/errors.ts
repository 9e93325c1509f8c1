/**
 * What the command itself refuses; what a package refuses keeps its own code.
 * - `USAGE_INVALID`: a flag or argument that does not fit.
 * - `CONFIG_INVALID`: the configuration file; the message names each knob by its full path.
 * - `PACKAGE_MISSING`: an optional package is not installed; the message has the install line.
 * - `RECORD_NOT_FOUND`: no such record in the snapshot.
 * - `FILE_UNREADABLE`, `FILE_UNWRITABLE`: a local file; the message names it.
 * - `VERIFY_FAILED`: what was read back is not what was written.
 */
export type CliErrorCode =
  | "USAGE_INVALID"
  | "CONFIG_INVALID"
  | "PACKAGE_MISSING"
  | "RECORD_NOT_FOUND"
  | "FILE_UNREADABLE"
  | "FILE_UNWRITABLE"
  | "VERIFY_FAILED";

/** An error of the command itself. Callers branch on `code`. */
export class CliError extends Error {
  readonly code: CliErrorCode;
  constructor(code: CliErrorCode, message: string, cause?: unknown) {
    super(`[${code}] ${message}`, cause === undefined ? undefined : { cause });
    this.name = "CliError";
    this.code = code;
  }
}

/** The stable code of any of our errors, or undefined. */
export function codeOf(error: unknown): string | undefined {
  if (typeof error !== "object" || error === null || !("code" in error)) return undefined;
  return typeof error.code === "string" ? error.code : undefined;
}

function textOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0 && error.message === "")
    return textOf(error.errors[0]);
  const text = error instanceof Error ? (error.message === "" ? error.name : error.message) : String(error);
  return text.replace(/\s+/g, " ").trim();
}

/** Why the operating system refused, short: `ENOENT: no such file or directory`. */
export function reasonOf(error: unknown): string {
  return textOf(error).replace(/, \w+( '.*)?$/, ""); // the call and the path are in our own message
}

/**
 * An error as one line for a person. An error with a code says all there is to say (its causes are for programs); of any
 * other the causes follow, four deep at most, as far as they say something new.
 */
export function oneLine(error: unknown): string {
  const messages: string[] = [];
  let current = error;
  for (let depth = 0; current !== undefined && depth < 4; depth += 1) {
    const text = textOf(current);
    if (text !== "" && !messages.some((earlier) => earlier.includes(text))) messages.push(text);
    if (/^\[[A-Z_]+\] /.test(text)) break;
    current = current instanceof Error ? current.cause : undefined;
  }
  return messages.join(" <- ");
}
