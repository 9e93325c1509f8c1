import { setImmediate } from "node:timers/promises";
import { createLimiter } from "@holdfast/object-store";
import { readPackIndex, type CaptureSchema, type PackIndex } from "@holdfast/pack-format";
import { CatalogError, codeOf, messageOf, type PackFailureCode } from "../catalog-error.js";
import { throwIfCanceled } from "../cancel.js";
import type { Context } from "../context.js";
import type { FailureKind, PackFailure } from "../indexer-types.js";
import { parsePackKey } from "../keys.js";
import type { PackRef } from "../pack-ref.js";
import { descriptorEncoder, type DescriptorRow } from "./descriptors.js";
import type { Plan } from "./plan.js";

/** A pack whose index was read: its descriptors, ready to be written at a version. */
export type ReadPack = { readonly pack: PackRef; readonly rows: readonly DescriptorRow[] };

/** The second third of a pass. */
export type ReadPass = {
  readonly plan: Plan;
  readonly packs: readonly ReadPack[];
  readonly failures: readonly PackFailure[];
};

const readsAtOnce = 4;
/** Rows made in one turn of the event loop: a few milliseconds of it. */
const recordsPerTurn = 250;
const messageLength = 512;

/**
 * Reads the indexes of the wanted packs. Never takes the lease lock. A pack that breaks a rule is a failure of its own; a
 * store that does not answer ends the reading, and everything not read by then is a failure of kind `store`.
 *
 * Throws BATCH_TOO_LARGE when the descriptors would be over `limits.passBytes`, CANCELED for the caller's signal.
 */
export async function read(context: Context, plan: Plan, o: { signal?: AbortSignal } = {}): Promise<ReadPass> {
  const limiter = createLimiter(readsAtOnce);
  const encode = descriptorEncoder(context.schema);
  const stopped = { by: null as PackFailure | null };
  const budget = { left: context.limits.passBytes };
  const results = await Promise.all(
    plan.wanted.map((pack) =>
      limiter(async (): Promise<ReadPack | PackFailure | CatalogError> => {
        if (budget.left < 0) return tooLarge(context, plan);
        if (stopped.by !== null) return notTried(pack, stopped.by);
        try {
          const index = await readPackIndex(context.store.source(pack.key, pack.bytes, o.signal));
          const wrong = problemOf(pack, index, context.schema);
          if (wrong !== null) return wrong;
          const rows: DescriptorRow[] = [];
          for (const [at, record] of index.records.entries()) {
            if (at % recordsPerTurn === 0) await setImmediate();
            const row = encode(pack, record);
            rows.push(row);
            budget.left -= row.length;
            if (budget.left < 0) return tooLarge(context, plan);
          }
          return { pack, rows };
        } catch (error) {
          throwIfCanceled(o.signal);
          const failure = failureOf(pack, error);
          if (failure.kind === "store") stopped.by = failure;
          return failure;
        }
      }, never),
    ),
  );
  throwIfCanceled(o.signal);
  const packs: ReadPack[] = [];
  const failures: PackFailure[] = [];
  for (const result of results) {
    if (result instanceof CatalogError) throw result;
    if ("rows" in result) packs.push(result);
    else failures.push(result);
  }
  return { plan, packs, failures };
}

// The limiter's own wait is never cut: each read inside it has its bound and the caller's signal.
const never = new AbortController().signal;

function tooLarge(context: Context, plan: Plan): CatalogError {
  return new CatalogError(
    "BATCH_TOO_LARGE",
    `the descriptors of ${String(plan.wanted.length)} packs are over limits.passBytes = ${String(context.limits.passBytes)}; ` +
      `index fewer packs at once, or smaller ones`,
  );
}

/** What is wrong with a pack whose index could be read; null when it belongs into this catalog as it is. */
export function problemOf(pack: PackRef, index: PackIndex, schema: CaptureSchema): PackFailure | null {
  const failure = (kind: FailureKind, code: PackFailureCode, message: string): PackFailure => ({
    pack,
    kind,
    code,
    message,
  });
  if (index.schema.name !== schema.name) {
    return failure(
      "foreign",
      "FOREIGN_SCHEMA",
      `${pack.key} is a pack of schema ${index.schema.name}, not ${schema.name}`,
    );
  }
  const differs = differences(pack, index);
  if (differs !== null) return failure("pack", "PACK_MISMATCH", `${pack.key} is not what it is said to be: ${differs}`);
  if (index.schema.version > schema.version) {
    const versions = `version ${String(index.schema.version)}, this process has version ${String(schema.version)}`;
    return failure("waiting-for-schema", "WAITING_FOR_SCHEMA", `${pack.key} needs schema ${schema.name} ${versions}`);
  }
  const field = foreignField(index.schema, schema);
  if (field !== null) return failure("pack", "PACK_MISMATCH", `${pack.key}: ${field}`);
  return null;
}

function differences(pack: PackRef, index: PackIndex): string | null {
  const parts = parsePackKey(pack.key);
  const { header } = index;
  const facts: readonly [string, unknown, unknown][] = [
    ["catalog in the key", parts?.catalog, index.schema.name],
    ["pack id in the key", parts?.packId, header.packId],
    ["writer in the key", parts?.writerId, header.writerId],
    ["sequence in the key", parts?.sequence, header.sequence],
    ["pack id", pack.packId, header.packId],
    ["writer", pack.writerId, header.writerId],
    ["sequence", pack.sequence, header.sequence],
    ["record count", pack.records, index.records.length],
  ];
  const wrong = facts.filter(([, said, found]) => said !== found);
  if (wrong.length === 0) return null;
  return wrong.map(([name, said, found]) => `${name} ${String(said)}, in the pack ${String(found)}`).join("; ");
}

function foreignField(theirs: CaptureSchema, ours: CaptureSchema): string | null {
  const types = new Map<string, string>(Object.entries(ours.fields));
  for (const [name, type] of Object.entries(theirs.fields)) {
    const known = types.get(name);
    if (known === type) continue;
    const has = known === undefined ? "the schema does not have it" : `the schema has it as ${known}`;
    return `its schema version ${String(theirs.version)} has field ${name} ${type}, and ${has}`;
  }
  return null;
}

// A pack of a newer file version, or one that this Node cannot decompress, is as good as one of a newer schema.
const needsUpgrade = new Set(["PACK_VERSION_UNSUPPORTED", "UNSUPPORTED_CODEC"]);
const brokenPack = new Set([
  "PACK_TRUNCATED",
  "PACK_CORRUPT",
  "SCHEMA_INVALID",
  "RECORD_INVALID",
  "RECORD_TOO_LARGE",
  "NOT_FOUND",
  "INVALID_KEY",
  "INVALID_RANGE",
  "PRECONDITION_FAILED",
  "CORRUPT",
]);

/** Whom a failed read blames. What is not known to be the pack's own doing is the store's. */
export function failureOf(pack: PackRef, error: unknown): PackFailure {
  const code = codeOf(error);
  const message = `${pack.key}: ${messageOf(error)}`.slice(0, messageLength);
  if (needsUpgrade.has(code)) return { pack, code, message, kind: "waiting-for-schema" };
  if (brokenPack.has(code)) return { pack, code, message, kind: "pack" };
  return { pack, code: "STORE_UNAVAILABLE", message, kind: "store" };
}

function notTried(pack: PackRef, because: PackFailure): PackFailure {
  const message = `${pack.key} was not read, since the store did not answer for ${because.pack.key}`;
  return { pack, code: "STORE_UNAVAILABLE", message, kind: "store" };
}
