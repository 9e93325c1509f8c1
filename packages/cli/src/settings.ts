import { resolve } from "node:path";
import { type ConfigFile, definedOnly, readConfig, readTextFile } from "./config.js";
import { CliError } from "./errors.js";
import type { Io } from "./io.js";
import type { StoreConfig } from "./store-config.js";
import type { LeaseOptions } from "@holdfast/lease-core";

/** The flags that say where catalog and packs are; commander fills them in. */
export interface ConnectionFlags {
  readonly config?: string;
  readonly catalog?: string;
  readonly user?: string;
  readonly passwordFile?: string;
  readonly database?: string;
  readonly timeout?: string;
  readonly schema?: string;
  readonly store?: string;
  readonly storeId?: string;
}

/** Where the catalog is and how to talk to it. */
export interface CatalogSettings {
  readonly url: string;
  readonly username: string;
  readonly password: string;
  readonly database: string;
  readonly requestTimeoutMs: number;
}

/** Flags, environment and file together: a flag goes before the environment, the environment before the file. */
export interface Settings {
  /** Null where neither flag, environment nor file names one. */
  readonly catalog: CatalogSettings | null;
  /** Name of a ready-made schema, or the path of a JSON file with a declaration. */
  readonly schema: string;
  readonly store: StoreConfig | null;
  /** Bound of each request, to the catalog and to the store, in ms. */
  readonly requestTimeoutMs: number;
  readonly lease: LeaseOptions;
}

/** Ten seconds: a person waits. Services take their own, longer default. */
const defaultRequestTimeoutMs = 10_000;

/**
 * Puts flags, environment and configuration file together.
 * @throws CliError `USAGE_INVALID`, `CONFIG_INVALID`, `FILE_UNREADABLE`.
 */
export async function readSettings(flags: ConnectionFlags, io: Io): Promise<Settings> {
  const path = (p: string): string => resolve(io.cwd, p);
  const file: ConfigFile = flags.config === undefined ? {} : await readConfig(path(flags.config));
  const requestTimeoutMs =
    flags.timeout === undefined
      ? (file.catalog?.requestTimeoutMs ?? defaultRequestTimeoutMs)
      : wholeNumber("--timeout", flags.timeout, 1);
  const url = flags.catalog ?? io.env["HOLDFAST_CATALOG"] ?? file.catalog?.url;
  const schema = flags.schema ?? file.schema ?? "tensor";
  return {
    catalog:
      url === undefined ? null : await catalogSettings({ url: checkUrl(url), requestTimeoutMs }, flags, file, io),
    schema: flags.schema?.endsWith(".json") === true ? path(flags.schema) : schema,
    store: storeSettings(flags, file, path),
    requestTimeoutMs,
    lease: file.lease === undefined ? {} : definedOnly(file.lease),
  };
}

async function catalogSettings(
  o: Pick<CatalogSettings, "url" | "requestTimeoutMs">,
  flags: ConnectionFlags,
  file: ConfigFile,
  io: Io,
): Promise<CatalogSettings> {
  const passwordFile = flags.passwordFile === undefined ? undefined : resolve(io.cwd, flags.passwordFile);
  return {
    ...o,
    username: flags.user ?? file.catalog?.username ?? "default",
    password: await readPassword(passwordFile, file.catalog?.passwordFile, io),
    database: flags.database ?? file.catalog?.database ?? "default",
  };
}

async function readPassword(fromFlag: string | undefined, fromFile: string | undefined, io: Io): Promise<string> {
  if (fromFlag !== undefined) return lastNewlineOff(await readTextFile(fromFlag));
  const fromEnvironment = io.env["HOLDFAST_PASSWORD"];
  if (fromEnvironment !== undefined) return fromEnvironment;
  return fromFile === undefined ? "" : lastNewlineOff(await readTextFile(fromFile));
}

const lastNewlineOff = (text: string): string => text.replace(/\r?\n$/, "");

function storeSettings(flags: ConnectionFlags, file: ConfigFile, path: (p: string) => string): Settings["store"] {
  const id = flags.storeId === undefined ? {} : { storeId: flags.storeId };
  if (flags.store === undefined) return file.store === undefined ? null : { ...file.store, ...id };
  const kind = flags.store.slice(0, Math.max(0, flags.store.indexOf(":")));
  if (kind !== "fs") {
    throw new CliError(
      "USAGE_INVALID",
      `--store ${flags.store}: only a directory fits into a flag: --store fs:DIR; a bucket is store in --config FILE`,
    );
  }
  const directory = flags.store.slice("fs:".length);
  if (directory === "") throw new CliError("USAGE_INVALID", "--store fs: needs a directory: --store fs:DIR");
  return { kind: "fs", directory: path(directory), ...id };
}

/** A catalog address without credentials in it: they would be on the command line, in `ps` and in shell histories. */
function checkUrl(url: string): string {
  if (!URL.canParse(url))
    throw new CliError(
      "USAGE_INVALID",
      `--catalog (catalog.url): not a URL: ${withoutCredentials(url)} (say http://HOST:PORT)`,
    );
  const parsed = new URL(url);
  if (parsed.username !== "" || parsed.password !== "") {
    throw new CliError(
      "USAGE_INVALID",
      "--catalog (catalog.url): no credentials in the URL; use --user, and HOLDFAST_PASSWORD or --password-file",
    );
  }
  if (parsed.search !== "" || parsed.hash !== "") {
    throw new CliError(
      "USAGE_INVALID",
      "--catalog (catalog.url): no parameters in the URL; use --user, --database, and HOLDFAST_PASSWORD or --password-file",
    );
  }
  if (parsed.protocol !== "http:" && parsed.protocol !== "https:") {
    throw new CliError(
      "USAGE_INVALID",
      `--catalog (catalog.url): ${url} is not ClickHouse's HTTP interface (say http://HOST:PORT)`,
    );
  }
  return url;
}

const withoutCredentials = (url: string): string => url.replace(/[^/]*@/, "...@");

/** Reads a whole number of at least `least` from a flag. */
export function wholeNumber(flag: string, value: string, least: number): number {
  const number = /^\d+$/.test(value) ? Number(value) : Number.NaN;
  if (!Number.isSafeInteger(number) || number < least) {
    throw new CliError("USAGE_INVALID", `${flag} ${value}: must be a whole number of at least ${least}`);
  }
  return number;
}
