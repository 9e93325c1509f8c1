import type { Stretch } from "@holdfast/lease-core";
import { CatalogError, codeOf, messageOf } from "../catalog-error.js";
import type { Context } from "../context.js";
import { readGuard } from "../guard.js";
import type { IndexResult } from "../indexer-types.js";
import { inventoryColumns, inventoryRow } from "../inventory.js";
import { allocateVersion } from "../publish/allocate.js";
import { publish, quarantining, type PublishOutcome } from "../publish/publish.js";
import { underLease } from "../store-access.js";
import { descriptorColumns, linesAt, type DescriptorRow } from "./descriptors.js";
import { split, type UnlistedPack } from "./plan.js";
import type { ReadPack, ReadPass } from "./read.js";

type Published = { readonly version: bigint; readonly outcome: PublishOutcome };

/**
 * The last third of a pass, all of it under the lease lock: version, descriptors, publish, inventory. Asks the guard again
 * when the lease is not the plan's or another commit ran under its keeper since, and drops what is in the catalog by now.
 *
 * Throws what the keeper throws without a lease (before anything is allocated), and as Indexer.index does.
 */
export async function commit(context: Context, pass: ReadPass): Promise<IndexResult> {
  const { plan } = pass;
  const failures = [...plan.failures, ...pass.failures];
  context.counters.failedPacks += failures.length;
  if (pass.packs.length === 0 && plan.unlisted.length === 0) {
    context.counters.skippedPacks += plan.skipped;
    return { ...nothing, requested: plan.requested, skipped: plan.skipped, failures };
  }
  return underLease(context.keeper, async (stretch) => {
    const owed = await stillOwed(context, stretch, pass);
    const skipped = plan.skipped + pass.packs.length - owed.packs.length;
    context.counters.skippedPacks += skipped;
    // Counted before anything is written: a plan that was made earlier must not trust its guard any more, however this ends.
    if (owed.packs.length + owed.unlisted.length > 0) context.keeper.countCommit();
    await list(context, stretch, owed.unlisted);
    context.counters.repairedInventory += owed.unlisted.length;
    if (owed.packs.length === 0) return { ...nothing, requested: plan.requested, skipped, failures };
    const published = await publishPacks(context, stretch, owed.packs);
    await listPublished(context, stretch, owed.packs, published);
    const indexedRecords = countRows(owed.packs);
    context.counters.publishes += 1;
    context.counters.indexedPacks += owed.packs.length;
    context.counters.indexedRecords += indexedRecords;
    const { version } = published;
    return { requested: plan.requested, skipped, indexedPacks: owed.packs.length, indexedRecords, version, failures };
  });
}

const nothing = { indexedPacks: 0, indexedRecords: 0, version: null } as const;

async function stillOwed(
  context: Context,
  stretch: Stretch,
  pass: ReadPass,
): Promise<{ packs: readonly ReadPack[]; unlisted: readonly UnlistedPack[] }> {
  const { plan, packs } = pass;
  if (stretch.leaseId === plan.leaseId && context.keeper.commits === plan.commits) {
    return { packs, unlisted: plan.unlisted };
  }
  const asked = [...packs.map((read) => read.pack), ...plan.unlisted.map((each) => each.pack)];
  const { wanted, unlisted } = split(asked, await readGuard(context.catalog, context.tables, asked));
  const keys = new Set(wanted.map((pack) => pack.key));
  return { packs: packs.filter((read) => keys.has(read.pack.key)), unlisted };
}

async function publishPacks(context: Context, stretch: Stretch, packs: readonly ReadPack[]): Promise<Published> {
  const { catalog, tables, clock, random, limits } = context;
  const refs = packs.map((read) => read.pack);
  for (let attempt = 1; ; attempt += 1) {
    const version = await allocateVersion({ catalog, tables, clock, random, attempts: limits.allocationAttempts });
    await writeDescriptors(context, stretch, packs, version);
    try {
      const records = countRows(packs);
      const outcome = await publish({ catalog, tables, clock, random, stretch, version, packs: refs, records });
      return { version, outcome };
    } catch (error) {
      if (codeOf(error) !== "PUBLISH_RACE" || attempt >= limits.publishAttempts) throw error;
      context.counters.publishRaces += 1;
    }
  }
}

async function writeDescriptors(
  context: Context,
  stretch: Stretch,
  packs: readonly ReadPack[],
  version: bigint,
): Promise<void> {
  const columns = descriptorColumns(context.schema);
  const { rowsPerInsert } = context.limits;
  let chunk: DescriptorRow[] = [];
  const write = async () => {
    const lines = linesAt(chunk, version);
    chunk = [];
    await quarantining(stretch, () => context.catalog.insertLines(context.tables.record, columns, lines));
  };
  for (const { rows } of packs) {
    for (let at = 0; at < rows.length;) {
      const some = rows.slice(at, at + rowsPerInsert - chunk.length);
      chunk.push(...some);
      at += some.length;
      if (chunk.length >= rowsPerInsert) await write();
    }
  }
  if (chunk.length > 0) await write();
}

async function list(context: Context, stretch: Stretch, packs: readonly UnlistedPack[]): Promise<void> {
  const rows = packs.map(({ pack, version }) => inventoryRow(pack, version));
  await quarantining(stretch, () => context.catalog.insert(context.tables.inventory, inventoryColumns, rows));
}

/**
 * Inventory last: a row without a visible publish would make every later pass skip a pack that nobody can see. After a
 * conflict the packs are visible, so they are listed all the same, and the error is the conflict; only a lost lease keeps
 * its own kind, since it says what to do next.
 */
async function listPublished(
  context: Context,
  stretch: Stretch,
  packs: readonly ReadPack[],
  published: Published,
): Promise<void> {
  const { version, outcome } = published;
  const rows = packs.map(({ pack }) => ({ pack, version }));
  if (outcome === "visible") {
    await list(context, stretch, rows);
    return;
  }
  const conflict =
    `another publish stands at version ${version.toString()}; ours is visible and must not be published again. ` +
    `Two publishers worked on one catalog at a time: check lease.clockSkewMs and that all use the same lease table`;
  try {
    await list(context, stretch, rows);
  } catch (error) {
    if (leaseRefusals.has(codeOf(error))) {
      throw new CatalogError("LEASE_LOST", `${messageOf(error)}; before that: ${conflict}`, { cause: error });
    }
    const note = `; writing its inventory then failed: ${messageOf(error)}`;
    throw new CatalogError("PUBLISH_CONFLICT", conflict + note, { cause: error });
  }
  throw new CatalogError("PUBLISH_CONFLICT", conflict);
}

const leaseRefusals = new Set(["LEASE_LOST", "LEASE_HELD", "LEASE_QUARANTINED", "LEASE_LATCHED"]);

function countRows(packs: readonly ReadPack[]): number {
  return packs.reduce((sum, read) => sum + read.rows.length, 0);
}
