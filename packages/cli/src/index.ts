export { runCli } from "./program.js";
export { CliError } from "./errors.js";
export type { CliErrorCode } from "./errors.js";
export type { Io, TextSink } from "./io.js";
export type { Peers } from "./peers.js";
