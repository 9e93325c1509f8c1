import type { ClickHouseSettings } from "@clickhouse/client";
import { ConfigError } from "../errors.js";

/** What the `settings` function of {@link BindOptions} is told about the attempt that is about to go out. */
export type Attempt = {
  /** Whole milliseconds this attempt has from now on; Infinity when nothing bounds it. */
  readonly msLeft: number;
  /** By the first word of the statement; whatever is not clearly a read is a write. */
  readonly kind: "read" | "write";
  /** 1 for the first attempt of a call. */
  readonly number: number;
};

/**
 * A duration as ClickHouse's settings in seconds take it, to the millisecond: 4999 -> "4.999". At least "0.001", since
 * zero means "no limit" there; Infinity gives that "0". NaN is refused (`CONFIG_INVALID`).
 */
export function capSeconds(ms: number): string {
  if (Number.isNaN(ms)) throw new ConfigError("capSeconds(ms): ms is NaN; give a number of milliseconds");
  if (ms === Infinity) return "0";
  return (Math.max(1, Math.floor(ms)) / 1000).toFixed(3);
}

/** Settings that every statement carries unless the caller set them. */
const defaults: ClickHouseSettings = {
  // The answer comes when the statement is over: an error in the middle of a result becomes an error status.
  wait_end_of_query: 1,
  // 64-bit integers do not fit a JSON number in JavaScript.
  output_format_json_quote_64bit_integers: 1,
};

/** The caller's own settings win. */
export function withDefaults(own: ClickHouseSettings | undefined): ClickHouseSettings {
  return { ...defaults, ...own };
}

/** True unless the caller turned it off: the server holds the answer back until the statement is over. */
export function waitsForEnd(settings: ClickHouseSettings): boolean {
  const value: unknown = settings.wait_end_of_query;
  return value !== 0 && value !== "0" && value !== false;
}

/** A settings value in the form that the HTTP interface takes. */
export function settingText(value: NonNullable<ClickHouseSettings[string]>): string {
  if (typeof value === "boolean") return value ? "1" : "0";
  // A SettingsMap knows its own text form.
  return typeof value === "object" ? value.toString() : String(value);
}

/** The server's own cap in ms that these settings ask for; 0 or nothing: none. */
export function capMs(settings: ClickHouseSettings): number | undefined {
  const given: unknown = settings.max_execution_time;
  const seconds = Number(given ?? 0);
  return seconds > 0 ? Math.round(seconds * 1000) : undefined;
}
