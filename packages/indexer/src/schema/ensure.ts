import type { ClickHouseClient } from "@clickhouse/client";
import type { Clock } from "@holdfast/deadline-http";
import { SchemaLease, type LeaseKeeper } from "@holdfast/lease-core";
import type { CaptureSchema } from "@holdfast/pack-format";
import { CatalogError, codeOf, mayHaveLanded, messageOf } from "../catalog-error.js";
import type { CatalogClient } from "../catalog-client.js";
import type { Column } from "../catalog/columns.js";
import { layoutVersion, stampJson } from "../catalog/stamp.js";
import { quoteIdentifier, type CatalogTables } from "../catalog/tables.js";
import { wallNs } from "../publish/allocate.js";
import { classify, type CatalogVerdict } from "./classify.js";
import { addColumnsStatement, createTableStatement, tableDefinitions } from "./ddl.js";
import { readCatalogState } from "./state.js";

const pollMs = 500;
/** Twice what a claim's read and INSERT may take together; slower claims are left to expire (SchemaLease). All processes on one catalog must use the same value. */
const settleMs = 5_000;
/** A dozen statements on empty tables, or one ALTER. Work that outlasts it is idempotent, so two of us do no harm. */
const leaseMs = 20_000;
/** A holder that was killed is outwaited, and so are four claims of ours that a slow catalog has made worthless. */
const waitMs = 5 * leaseMs;
/** How long installing is tried beyond lease.ttlMs while somebody else holds the publisher lease. */
const installSlackMs = 5_000;

export type SchemaContext = {
  readonly catalog: CatalogClient;
  readonly tables: CatalogTables;
  readonly schema: CaptureSchema;
  readonly keeper: LeaseKeeper;
  readonly clock: Clock;
  readonly random: () => number;
};

type Options = { readonly client: ClickHouseClient; readonly database?: string };

/**
 * Brings a catalog to the schema, or finds that it fits. Most starts only read. Otherwise: schema lease (its own table
 * first), look again under it, and on an install the publisher lease inside it; never the reverse, so that no one waits
 * for the schema lease while a lease that others wait for runs down. For the same reason nobody waits for the publisher
 * lease inside it: a refused install claim gives the schema lease back and comes again. A start that waits for the schema
 * lease returns without it once its holder has made the catalog complete.
 */
export async function ensureSchema(
  context: SchemaContext,
  options: Options,
  o: { signal?: AbortSignal } = {},
): Promise<void> {
  if ((await firstLook(context, options)).verdict === "complete") return;
  if (options.database !== undefined) await createDatabase(context.catalog, options.database);
  const { clock, keeper } = context;
  const lease = schemaLease(context, options);
  await lease.createTable();
  const endsAt = clock.now() + keeper.config.ttlMs + installSlackMs;
  for (;;) {
    if ((await leaseOrComplete(context, options, lease, o)) === "complete") return;
    const refusal = await releasing(lease, () => apply(context, options));
    if (refusal === null) return;
    if (clock.now() >= endsAt) throw busy(context, messageOf(refusal), refusal);
    await clock.sleep(pollMs, o);
  }
}

/**
 * Waits for the schema lease, or until the catalog is complete. A claim takes settleMs, in which all others wait, so none is made for a
 * complete catalog. For that the lease must be read before the catalog: a holder gives the lease back after its last statement, so a
 * catalog that is incomplete after the lease was seen free is one that no process works on. (In settleMs or more between our read and our
 * claim another process may have taken the lease and given it back. Then our claim costs time, and the look under it finds nothing to do.)
 */
async function leaseOrComplete(
  context: SchemaContext,
  options: Options,
  lease: SchemaLease,
  o: { signal?: AbortSignal },
): Promise<"lease" | "complete"> {
  const { clock } = context;
  const endsAt = clock.now() + waitMs;
  for (;;) {
    const last = clock.now() >= endsAt;
    const { state } = await lease.status();
    if (await isComplete(context, options)) return "complete";
    if (state !== "held-elsewhere" && (await lease.acquire(o))) return "lease";
    if (last) throw busy(context, `another process has held its schema lease for over ${String(waitMs)} ms`);
    await clock.sleep(pollMs, o);
  }
}

function schemaLease(context: SchemaContext, options: Options): SchemaLease {
  const { clock, random, schema } = context;
  const database = options.database === undefined ? {} : { database: options.database };
  return new SchemaLease({
    client: options.client,
    name: schema.name,
    pollMs,
    settleMs,
    leaseMs,
    clock,
    random,
    ...database,
  });
}

async function releasing<T>(lease: SchemaLease, fn: () => Promise<T>): Promise<T> {
  try {
    return await fn();
  } finally {
    await lease.release();
  }
}

/** Does what is to be done, under the schema lease. Answers the error of an install claim that may be tried again. */
async function apply(context: SchemaContext, options: Options): Promise<Error | null> {
  const verdict = await look(context, options);
  if (verdict.verdict === "complete") return null;
  if (verdict.verdict === "extend") {
    await extend(context, verdict.added);
    return null;
  }
  const { keeper } = context;
  if (keeper.status().state === "held") {
    await install(context);
    return null;
  }
  await keeper.createTable();
  try {
    await keeper.acquire({ waitMs: 0 });
  } catch (error) {
    if (!mayClaimAgain(error)) throw error;
    // Whoever publishes into this catalog has installed it.
    return (await look(context, options)).verdict === "complete" ? null : error;
  }
  try {
    await install(context);
  } finally {
    await keeper.release();
  }
  return null;
}

const claimAgainCodes = new Set(["LEASE_HELD", "LEASE_QUARANTINED", "CLAIM_NOT_RECORDED"]);

/** Refused, or timed out: a row of ours that landed late refuses the next claim, and is waited out like any other. */
function mayClaimAgain(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  return claimAgainCodes.has(codeOf(error)) || ("timedOut" in error && error.timedOut === true);
}

async function install(context: SchemaContext): Promise<void> {
  const replicated = context.keeper.config.topology === "replicated";
  for (const definition of tableDefinitions(context.schema)) {
    await context.catalog.command(createTableStatement(definition, context.tables, { replicated }));
  }
  await stamp(context);
}

async function extend(context: SchemaContext, added: readonly Column[]): Promise<void> {
  if (added.length > 0) await context.catalog.command(addColumnsStatement(added, context.tables));
  await stamp(context);
}

/** INSERT of our stamp, unless one of this version or a later one, or of another layout, is there already. */
export function stampInsert(tables: CatalogTables): string {
  return (
    `INSERT INTO ${tables.stamp} (layout_version, schema_version, schema_json, applied_at_ns) ` +
    `SELECT {layout:UInt32}, {version:UInt32}, {json:String}, {now_ns:UInt64} WHERE ` +
    `(SELECT count() FROM ${tables.stamp} WHERE layout_version != {layout:UInt32} OR schema_version >= {version:UInt32}) = 0`
  );
}

async function stamp(context: SchemaContext): Promise<void> {
  await context.catalog.command(stampInsert(context.tables), {
    layout: layoutVersion,
    version: context.schema.version,
    json: stampJson(context.schema),
    now_ns: wallNs(context.clock),
  });
}

async function look(context: SchemaContext, options: Options): Promise<CatalogVerdict> {
  const verdict = await verdictOf(context, options);
  if (verdict.verdict !== "refuse") return verdict;
  throw new CatalogError(verdict.code, `catalog ${context.schema.name}: ${verdict.problem}`);
}

/** For a look without the lease: a catalog that another process is changing may look wrong, and is not refused for that. */
async function isComplete(context: SchemaContext, options: Options): Promise<boolean> {
  return (await verdictOf(context, options)).verdict === "complete";
}

async function verdictOf(context: SchemaContext, options: Options): Promise<CatalogVerdict> {
  const { catalog, tables, schema } = context;
  return classify(await readCatalogState({ catalog, tables, name: schema.name, database: options.database }), schema);
}

/** The first statements of all: what a wrong address, user or database looks like is known here. */
async function firstLook(context: SchemaContext, options: Options): Promise<CatalogVerdict> {
  try {
    return await look(context, options);
  } catch (error) {
    if (codeOf(error) !== "REQUEST_FAILED" && codeOf(error) !== "DEADLINE_EXCEEDED") throw error;
    const outcome = mayHaveLanded(error) ? "unknown" : "not-sent";
    throw new CatalogError("CATALOG_UNREACHABLE", `${messageOf(error)}; ${advice(error)}`, { cause: error, outcome });
  }
}

const credentialCodes = new Set([192, 193, 194, 516]);

function advice(error: unknown): string {
  const server = typeof error === "object" && error !== null && "serverCode" in error ? error.serverCode : undefined;
  if (typeof server !== "number") return "check that ClickHouse runs and that the client's url is right";
  if (credentialCodes.has(server)) return "check the client's username and password";
  if (server === 497) return "grant this user what the message names";
  if (server === 81) return "create the database, or name another";
  return "ClickHouse answered this error to the first read of the catalog";
}

async function createDatabase(catalog: CatalogClient, database: string): Promise<void> {
  const found = await catalog.decide(`SELECT name FROM system.databases WHERE name = {database:String}`, { database });
  if (found.length === 0) await catalog.command(`CREATE DATABASE IF NOT EXISTS ${quoteIdentifier(database)}`);
}

function busy(context: SchemaContext, why: string, cause?: unknown): CatalogError {
  return new CatalogError(
    "CATALOG_BUSY",
    `catalog ${context.schema.name} is not ready, and it cannot be made ready now: ${why}; try again, or end that process`,
    cause === undefined ? {} : { cause },
  );
}
