import type * as Embedded from "@holdfast/clickhouse-embedded";
import type * as StorageFs from "@holdfast/storage-fs";
import type * as StorageGcs from "@holdfast/storage-gcs";
import type * as StorageS3 from "@holdfast/storage-s3";
import { CliError } from "./errors.js";

/** Imports of the optional packages, by name; a test puts its own in place. */
export interface Peers {
  readonly "@holdfast/storage-fs": () => Promise<typeof StorageFs>;
  readonly "@holdfast/storage-s3": () => Promise<typeof StorageS3>;
  readonly "@holdfast/storage-gcs": () => Promise<typeof StorageGcs>;
  readonly "@holdfast/clickhouse-embedded": () => Promise<typeof Embedded>;
}

/** The real imports. They stand behind functions: nothing is loaded before it is named. */
export const installedPeers: Peers = {
  "@holdfast/storage-fs": () => import("@holdfast/storage-fs"),
  "@holdfast/storage-s3": () => import("@holdfast/storage-s3"),
  "@holdfast/storage-gcs": () => import("@holdfast/storage-gcs"),
  "@holdfast/clickhouse-embedded": () => import("@holdfast/clickhouse-embedded"),
};

/** What a package needs beside it, which not every package manager installs by itself. */
const companions: Partial<Record<keyof Peers, readonly string[]>> = {
  "@holdfast/storage-s3": ["@aws-sdk/client-s3"],
  "@holdfast/storage-gcs": ["@google-cloud/storage"],
};

// Only the absence of the package itself is answered with an install line: a package that is there and fails to load
// (say, an engine for another libc) has its own message, which must not be hidden behind "install me".
const isAbsent = (error: unknown, name: string): boolean =>
  error instanceof Error &&
  "code" in error &&
  error.code === "ERR_MODULE_NOT_FOUND" &&
  error.message.includes(`'${name}'`);

/**
 * Imports what a command needs, all at once, so that one message has the whole install line.
 * @throws CliError `PACKAGE_MISSING` naming what needs which packages.
 */
export async function importPeers<const N extends readonly (keyof Peers)[]>(
  peers: Peers,
  neededBy: string,
  names: N,
): Promise<{ [K in N[number]]: Awaited<ReturnType<Peers[K]>> }> {
  const missing: string[] = [];
  const loaded: Partial<Record<keyof Peers, unknown>> = {};
  for (const name of names) {
    try {
      loaded[name] = await peers[name]();
    } catch (error) {
      const beside = companions[name] ?? [];
      if (isAbsent(error, name)) missing.push(name, ...beside);
      else if (beside.some((one) => isAbsent(error, one))) missing.push(...beside);
      else throw error;
    }
  }
  if (missing.length > 0) {
    const list = missing.join(" ");
    throw new CliError("PACKAGE_MISSING", `${neededBy} needs ${missing.join(" and ")}: npm install ${list}`);
  }
  // Every name was loaded by the loop above, each by its own import.
  return loaded as { [K in N[number]]: Awaited<ReturnType<Peers[K]>> };
}
