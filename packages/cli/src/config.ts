import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { leaseConfig, type LeaseOptions } from "@holdfast/lease-core";
import { z } from "zod";
import { CliError, reasonOf } from "./errors.js";
import { maySecretlyHold, secretHint, storeShape, type StoreConfig } from "./store-config.js";

const milliseconds = z.int().min(0);
const text = z.string().min(1);

// strictObject: a misspelt knob is refused, never ignored. There is no catalog.password: a password in a file that is
// otherwise harmless gets copied and committed with it.
const fileShape = z.strictObject({
  catalog: z
    .strictObject({
      url: text.optional(),
      username: text.optional(),
      passwordFile: text.optional(),
      database: text.optional(),
      requestTimeoutMs: milliseconds.optional(),
    })
    .optional(),
  schema: text.optional(),
  store: storeShape.optional(),
  lease: z
    .strictObject({
      ttlMs: milliseconds.optional(),
      clockSkewMs: milliseconds.optional(),
      publishTimeoutMs: milliseconds.optional(),
      startWaitMs: milliseconds.optional(),
      acquirePollMs: milliseconds.optional(),
      topology: z.enum(["single", "replicated", "cloud"]).optional(),
      quorum: z.int().min(0).optional(),
    })
    .optional(),
});

/** The configuration file, its paths made absolute (they are relative to the folder of the file). */
export type ConfigFile = z.infer<typeof fileShape>;

const shown = (value: unknown): string => {
  const json = JSON.stringify(value) as string | undefined; // undefined for what JSON cannot say
  return json === undefined ? "nothing" : json.length > 60 ? `${json.slice(0, 57)}...` : json;
};

function describe(issue: z.core.$ZodIssue): string {
  const path = issue.path.join(".");
  if (issue.code === "unrecognized_keys") {
    const names = issue.keys.map((key) => (path === "" ? key : `${path}.${key}`));
    const hint = names.includes("catalog.password")
      ? " (put the password into a file and name it in catalog.passwordFile, or use HOLDFAST_PASSWORD)"
      : (names.map((name) => secretHint(name, issue.input)).find((text) => text !== "") ?? "");
    return `${names.join(", ")}: no such knob${hint}`;
  }
  return `${path === "" ? "the whole file" : path}: ${issue.message}${gotten(path, issue)}`;
}

// The value is shown for its knob only: an object is not printed, since a mistaken nesting could hold a secret.
function gotten(path: string, issue: z.core.$ZodIssue): string {
  const input =
    issue.code === "invalid_union" && issue.discriminator !== undefined
      ? (issue.input as Record<string, unknown>)[issue.discriminator]
      : issue.input;
  if (input !== undefined && maySecretlyHold(path)) return "; what it holds is not shown";
  return `, got ${typeof input === "object" && input !== null ? "an object" : shown(input)}`;
}

/**
 * Checks a parsed configuration file.
 * @throws CliError `CONFIG_INVALID` that names every wrong knob by its full path, with its value; LeaseError
 *   `CONFIG_INVALID` where the lease's numbers do not fit together.
 */
export function checkConfig(value: unknown, file: string): ConfigFile {
  const parsed = fileShape.safeParse(value, { reportInput: true });
  if (!parsed.success) {
    throw new CliError("CONFIG_INVALID", `${file}: ${parsed.error.issues.map(describe).join("; ")}`);
  }
  const config = parsed.data;
  const requestTimeoutMs = config.catalog?.requestTimeoutMs;
  leaseConfig({
    ...(config.lease === undefined ? {} : { lease: definedOnly(config.lease) }),
    ...(requestTimeoutMs === undefined ? {} : { catalog: { requestTimeoutMs } }),
  });
  return config;
}

/** Zod's optional knobs may be present and undefined; ours may not. */
export function definedOnly(lease: NonNullable<ConfigFile["lease"]>): LeaseOptions {
  return Object.fromEntries(Object.entries(lease).filter(([, value]) => value !== undefined));
}

/**
 * Reads and checks a configuration file (JSON).
 * @throws CliError `FILE_UNREADABLE`, `CONFIG_INVALID`.
 */
export async function readConfig(path: string): Promise<ConfigFile> {
  const config = checkConfig(parseJson(await readTextFile(path), path), path);
  const here = (p: string): string => resolve(dirname(path), p);
  const { catalog, store, schema } = config;
  return {
    ...config,
    ...(catalog?.passwordFile === undefined
      ? {}
      : { catalog: { ...catalog, passwordFile: here(catalog.passwordFile) } }),
    ...(store === undefined ? {} : { store: withPaths(store, here) }),
    ...(schema === undefined || !schema.endsWith(".json") ? {} : { schema: here(schema) }),
  };
}

function withPaths(store: StoreConfig, here: (path: string) => string): StoreConfig {
  switch (store.kind) {
    case "fs":
      return { ...store, directory: here(store.directory) };
    case "s3":
      return store.caFile === undefined ? store : { ...store, caFile: here(store.caFile) };
    case "gcs":
      return store.keyFilename === undefined ? store : { ...store, keyFilename: here(store.keyFilename) };
  }
}

/** Reads a text file; the error names it. */
export async function readTextFile(path: string): Promise<string> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    throw new CliError("FILE_UNREADABLE", `cannot read ${path}: ${reasonOf(error)}`, error);
  }
}

/** Parses JSON; the error names the file and says where, never what: a password file may be given by mistake. */
export function parseJson(json: string, path: string): unknown {
  try {
    return JSON.parse(json) as unknown;
  } catch (error) {
    const where = error instanceof Error ? /position \d+/.exec(error.message)?.[0] : undefined;
    throw new CliError("CONFIG_INVALID", `${path}: not JSON${where === undefined ? "" : ` (at ${where})`}`);
  }
}
