import type { ObjectStore } from "@holdfast/object-store";
import type { ConnectionOptions } from "@holdfast/storage-s3";
import { readTextFile } from "./config.js";
import { CliError, codeOf, oneLine } from "./errors.js";
import type { Io } from "./io.js";
import { importPeers, type Peers } from "./peers.js";
import type { BucketConfig } from "./store-config.js";

/**
 * The bucket that the configuration file names. Sends nothing.
 * @throws CliError `PACKAGE_MISSING`; `CONFIG_INVALID` for a variable that is not set and for what `s3Store` refuses, with the knob's
 *   full path; `FILE_UNREADABLE`.
 */
export async function openBucket(config: BucketConfig, io: Pick<Io, "env">, peers: Peers): Promise<ObjectStore> {
  const loaded = await importPeers(peers, 'store.kind "s3"', ["@holdfast/storage-s3"]);
  const { credentials, caFile, ...same } = config; // the rest has the names of the store's own options
  const options: ConnectionOptions = {
    ...same,
    ...(credentials === undefined ? {} : { credentials: keysOf(credentials, io.env) }),
    ...(caFile === undefined ? {} : { ca: await readTextFile(caFile) }),
  };
  try {
    return loaded["@holdfast/storage-s3"].s3Store(options);
  } catch (error) {
    const code = codeOf(error);
    // Its messages begin with the option's name, and never show what may hold a key.
    const message = oneLine(error).replace(/^\[[A-Z_]+\] /, "");
    if (code === "CONFIG_INVALID") throw new CliError(code, `store.${message}`, error);
    if (code === "INVALID_KEY") throw new CliError("CONFIG_INVALID", `store.keyPrefix: ${message}`, error);
    throw error;
  }
}

type Keys = { readonly accessKeyId: string; readonly secretAccessKey: string; readonly sessionToken?: string };

function keysOf(names: NonNullable<BucketConfig["credentials"]>, env: Io["env"]): Keys {
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
