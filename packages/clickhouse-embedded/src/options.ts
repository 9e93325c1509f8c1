import { EmbeddedError } from "./errors.js";

/** How to start an embedded server. */
export interface EmbeddedOptions {
  /**
   * Directory for the data, one server at a time; made when absent. Default: a temporary one, removed with all data when the server ends,
   * also when it is killed or crashes. Pass a directory to keep the data.
   */
  readonly dataDir?: string;
  /** Port on 127.0.0.1, 0 to 65535. 0, the default, takes any that is free. */
  readonly port?: number;
  /** Password of the only user, `default`. Default: none, so that every program of this machine may connect. */
  readonly password?: string;
  /**
   * Sync each insert to disk before it is acknowledged (about three times slower). Default false: what was acknowledged in a `dataDir`
   * survives the end of the process, not the end of the machine.
   */
  readonly durable?: boolean;
  /** Queries that run at once, 1 to 64; default 12. Up to 1000 more wait, which counts against their max_execution_time; beyond, error 202. */
  readonly maxConcurrentQueries?: number;
  /** Ends the start (CANCELED). Does nothing once the server is up. */
  readonly signal?: AbortSignal;
}

/** The options with their defaults. CONFIG_INVALID names the option, its value and what is allowed. */
export function checkOptions(o: EmbeddedOptions): Required<Omit<EmbeddedOptions, "dataDir" | "signal">> {
  const port = o.port ?? 0;
  const maxConcurrentQueries = o.maxConcurrentQueries ?? 12;
  whole("port", port, 0, 65_535);
  whole("maxConcurrentQueries", maxConcurrentQueries, 1, 64);
  if (o.dataDir?.trim() === "") {
    throw new EmbeddedError(
      "CONFIG_INVALID",
      "dataDir is empty; give a directory, or leave it out for a temporary one",
    );
  }
  return { port, maxConcurrentQueries, password: o.password ?? "", durable: o.durable ?? false };
}

function whole(name: string, value: number, least: number, most: number): void {
  if (Number.isInteger(value) && value >= least && value <= most) return;
  throw new EmbeddedError("CONFIG_INVALID", `${name} is ${value}; it must be a whole number from ${least} to ${most}`);
}
