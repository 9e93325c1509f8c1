import type { ObjectStore } from "@holdfast/object-store";
import type { ConnectionOptions } from "@holdfast/storage-s3";
import { readTextFile } from "./config.js";
import { CliError, codeOf, oneLine } from "./errors.js";
import type { Io } from "./io.js";
import { importPeers, type Peers } from "./peers.js";
import type { BucketConfig } from "./store-config.js";

type S3Config = Extract<BucketConfig, { kind: "s3" }>;
type GcsConfig = Extract<BucketConfig, { kind: "gcs" }>;

/**
 * The bucket that the configuration file names. Sends nothing.
 * @throws CliError `PACKAGE_MISSING`; `CONFIG_INVALID` for a variable that is not set and for what the store refuses, with the knob's
 *   full path; `FILE_UNREADABLE`.
 */
export async function openBucket(
  config: BucketConfig,
  o: { env: Io["env"]; peers: Peers; requestTimeoutMs: number },
): Promise<ObjectStore> {
  return config.kind === "s3" ? openS3(config, o.env, o.peers) : openGcs(config, o.requestTimeoutMs, o.peers);
}

async function openS3(config: S3Config, env: Io["env"], peers: Peers): Promise<ObjectStore> {
  const loaded = await importPeers(peers, 'store.kind "s3"', ["@holdfast/storage-s3"]);
  const { credentials, caFile, ...same } = config; // the rest has the names of the store's own options
  const options: ConnectionOptions = {
    ...same,
    ...(credentials === undefined ? {} : { credentials: keysOf(credentials, env) }),
    ...(caFile === undefined ? {} : { ca: await readTextFile(caFile) }),
  };
  return knobsNamed(() => loaded["@holdfast/storage-s3"].s3Store(options));
}

async function openGcs(config: GcsConfig, requestTimeoutMs: number, peers: Peers): Promise<ObjectStore> {
  const { kind, ...same } = config; // the store refuses what is not an option of its own
  const loaded = await importPeers(peers, `store.kind "${kind}"`, ["@holdfast/storage-gcs"]);
  // The SDK reads it with the first request, and then the store only knows that there is no token.
  if (same.keyFilename !== undefined) await readTextFile(same.keyFilename);
  // No signal ends the fetch of a token, and until it ends the process does not: a server of tokens that is silent may keep it no longer
  // than any other.
  return knobsNamed(() => loaded["@holdfast/storage-gcs"].gcsStore({ ...same, tokenTimeoutMs: requestTimeoutMs }));
}

/** What a store refuses, with the full path of the knob. Its messages begin with the option's name and never show what may hold a key. */
function knobsNamed(open: () => ObjectStore): ObjectStore {
  try {
    return open();
  } catch (error) {
    const code = codeOf(error);
    const message = oneLine(error).replace(/^\[[A-Z_]+\] /, "");
    if (code === "INVALID_KEY") throw new CliError("CONFIG_INVALID", `store.keyPrefix: ${message}`, error);
    if (code !== "CONFIG_INVALID") throw error;
    const ofTheEnvironment = message.startsWith("STORAGE_EMULATOR_HOST");
    throw new CliError(code, ofTheEnvironment ? message : `store.${message}`, error);
  }
}

type Keys = { readonly accessKeyId: string; readonly secretAccessKey: string; readonly sessionToken?: string };

function keysOf(names: NonNullable<S3Config["credentials"]>, env: Io["env"]): Keys {
  const missing: string[] = [];
  const read = (knob: keyof typeof names): string => {
    const value = env[names[knob] ?? ""] ?? "";
    if (value === "") missing.push(`store.credentials.${knob}`);
    return value;
  };
  const keys = { accessKeyId: read("accessKeyIdEnv"), secretAccessKey: read("secretAccessKeyEnv") };
  const session = names.sessionTokenEnv === undefined ? {} : { sessionToken: read("sessionTokenEnv") };
  if (missing.length > 0) {
    // The names are not repeated: somebody may have put the key itself there.
    const which = missing.join(" and ");
    throw new CliError("CONFIG_INVALID", `${which}: the environment has no variable of that name, or an empty one`);
  }
  return { ...keys, ...session };
}
