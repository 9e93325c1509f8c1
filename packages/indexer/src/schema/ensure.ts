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

/** How long another process may hold the schema lease before we give up waiting for it. */
export const schemaWaitMs = 60_000;
const schemaPollMs = 500;
/** What the install claim may take beyond the lease's ttlMs. */
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
 * for the schema lease while a lease that others wait for runs down.
 */
export async function ensureSchema(
  context: SchemaContext,
  options: Options,
  o: { signal?: AbortSignal } = {},
): Promise<void> {
  if ((await firstLook(context, options)).verdict === "complete") return;
  if (options.database !== undefined) await createDatabase(context.catalog, options.database);
  const { clock, random, schema } = context;
  const lease = new SchemaLease({
    client: options.client,
    name: schema.name,
    pollMs: schemaPollMs,
    clock,
    random,
    ...(options.database === undefined ? {} : { database: options.database }),
  });
  const waited = o.signal === undefined ? {} : { signal: o.signal };
  await lease.createTable();
  if (!(await lease.acquire({ waitMs: schemaWaitMs, ...waited }))) {
    if ((await look(context, options)).verdict === "complete") return;
    throw busy(context, `another process has held its schema lease for over ${String(schemaWaitMs)} ms`);
  }
  try {
    await applyUnderLease(context, options, waited);
  } finally {
    await lease.release();
  }
}

async function applyUnderLease(context: SchemaContext, options: Options, o: { signal?: AbortSignal }): Promise<void> {
  const verdict = await look(context, options);
  if (verdict.verdict === "complete") return;
  if (verdict.verdict === "extend") {
    await extend(context, verdict.added);
    return;
  }
  if (context.keeper.status().state === "held") {
    await install(context);
    return;
  }
  const waitMs = context.keeper.config.ttlMs + installSlackMs;
  await context.keeper.createTable();
  try {
    await context.keeper.acquire({ waitMs, ...o });
  } catch (error) {
    // Whoever publishes into this catalog has installed it.
    if (codeOf(error) === "LEASE_HELD" && (await look(context, options)).verdict === "complete") return;
    if (codeOf(error) === "LEASE_HELD") throw busy(context, messageOf(error), error);
    throw error;
  }
  try {
    await install(context);
  } finally {
    await context.keeper.release();
  }
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
  const { catalog, tables, schema } = context;
  const state = await readCatalogState({ catalog, tables, name: schema.name, database: options.database });
  const verdict = classify(state, schema);
  if (verdict.verdict !== "refuse") return verdict;
  throw new CatalogError(verdict.code, `catalog ${schema.name}: ${verdict.problem}`);
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
