import type { Clock } from "@holdfast/deadline-http";
import type { Stretch } from "@holdfast/lease-core";
import { CatalogError, mayHaveLanded, messageOf } from "../catalog-error.js";
import type { CatalogClient } from "../catalog-client.js";
import type { CatalogTables } from "../catalog/tables.js";
import type { PackRef } from "../pack-ref.js";
import { uuidFrom, type Random } from "../prng.js";
import { wallNs } from "./allocate.js";
import {
  manifestChunks,
  manifestStatement,
  memberCountStatement,
  publishesStatement,
  refusalStatement,
  watermarkStatement,
} from "./statements.js";

export type Publish = {
  readonly catalog: CatalogClient;
  readonly tables: CatalogTables;
  readonly clock: Clock;
  readonly random: Random;
  readonly stretch: Stretch;
  readonly version: bigint;
  /** Packs of one store, each once. */
  readonly packs: readonly PackRef[];
  readonly records: number;
};

/** `conflict`: ours is visible, and another publish stands at the same version. It must not be published again. */
export type PublishOutcome = "visible" | "conflict";

type Attempt = Publish & { readonly publishId: string };

/**
 * Makes packs, whose descriptors are all written, visible at `version`. Every request renews the lease first when it is due:
 * that is the stretch's own doing.
 *
 * Throws PUBLISH_RACE (visible nowhere: allocate a higher version, write the descriptors again and publish that) and
 * LEASE_LOST (visible nowhere). Any other failure whose write may have reached the server quarantines the lease first:
 * the statement may still run, and the fence knows a holder, not an operation, so the same lease must not go on.
 */
export async function publish(o: Publish): Promise<PublishOutcome> {
  // A fresh id for each attempt: an id that is used again could pair an old manifest with a new watermark.
  const attempt = { ...o, publishId: uuidFrom(o.random) };
  await writeManifest(attempt);
  await writeWatermark(attempt);
  const outcome = await readWatermark(attempt);
  if (outcome === "visible") await confirmMembers(attempt, o.packs.length, "its manifest rows are gone");
  return outcome;
}

async function writeManifest(o: Attempt): Promise<void> {
  let expected = 0;
  for (const chunk of manifestChunks(o.packs)) {
    const fence = o.stretch.fence();
    const statement = manifestStatement(o.tables, chunk, fence.predicate);
    const parameters = { ...identity(o), store_id: chunk[0]?.storeId ?? "" };
    await quarantining(o.stretch, () => o.catalog.fenced(statement, parameters, fence));
    expected += chunk.length;
    await confirmMembers(o, expected, "its manifest was not admitted");
  }
}

async function confirmMembers(o: Attempt, expected: number, why: string): Promise<void> {
  const [row] = await readingBack(o.stretch, () =>
    o.catalog.decide<{ members: string }>(memberCountStatement(o.tables), identity(o)),
  );
  if (Number(row?.members ?? 0) < expected) throw await refusal(o, why);
}

async function writeWatermark(o: Attempt): Promise<void> {
  const fence = o.stretch.fence();
  const parameters = {
    ...identity(o),
    published_at_ns: wallNs(o.clock),
    indexed_rows: o.records,
    indexed_packs: o.packs.length,
  };
  await quarantining(o.stretch, () =>
    o.catalog.fenced(watermarkStatement(o.tables, fence.predicate), parameters, fence),
  );
}

async function readWatermark(o: Attempt): Promise<PublishOutcome> {
  const rows = await readingBack(o.stretch, () =>
    o.catalog.decide<{ publish_id: string }>(publishesStatement(o.tables), { version: o.version.toString() }),
  );
  if (!rows.some((row) => row.publish_id === o.publishId)) throw await refusal(o, "its watermark was not admitted");
  return rows.length === 1 ? "visible" : "conflict";
}

/** The error for a publish that wrote nothing visible: by the head, somebody else's version or somebody else's lease. */
async function refusal(o: Attempt, why: string): Promise<CatalogError> {
  const fence = o.stretch.fence();
  const [row] = await readingBack(o.stretch, () =>
    o.catalog.decide<{ held: number; head: string }>(refusalStatement(o.tables, fence.predicate), fence.params),
  );
  const head = BigInt(row?.head ?? 0);
  const what = `version ${o.version.toString()} is not visible: ${why}`;
  if (row?.held !== 1) {
    return new CatalogError(
      "LEASE_LOST",
      `${what}, since publisher lease ${o.stretch.leaseId} is not at the head, or ends within ` +
        `lease.publishTimeoutMs + lease.clockSkewMs; the newest visible version is ${head.toString()}`,
    );
  }
  return new CatalogError("PUBLISH_RACE", `${what}; the newest visible version is ${head.toString()}`);
}

function identity(o: Attempt): { version: string; publish_id: string } {
  return { version: o.version.toString(), publish_id: o.publishId };
}

/** Runs a catalog write; when it fails and may have reached the server, the lease is quarantined before the error goes on. */
export async function quarantining<T>(stretch: Stretch, write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    if (mayHaveLanded(error)) stretch.quarantine(error);
    throw error;
  }
}

// Without its read-back nobody knows what a publish did, so its failure counts as the write's own, unless it was not sent:
// then no statement of ours is running, and the next guard read finds out.
async function readingBack<T>(stretch: Stretch, read: () => Promise<T>): Promise<T> {
  try {
    return await read();
  } catch (error) {
    const sent = !(typeof error === "object" && error !== null && "outcome" in error && error.outcome === "not-sent");
    if (sent) stretch.quarantine(new Error(`read-back of a publish failed: ${messageOf(error)}`, { cause: error }));
    throw error;
  }
}
