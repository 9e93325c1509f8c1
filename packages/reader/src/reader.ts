import { systemClock } from "@holdfast/deadline-http";
import type { CaptureSchema } from "@holdfast/pack-format";
import { compareStamp, headStatement, stampStatement, tableReferences, type StampRow } from "@holdfast/indexer/catalog";
import { catalogAccess, unreachable, type CatalogAccess } from "./catalog-access.js";
import { ReaderError } from "./reader-error.js";
import type { Reader, ReaderOptions } from "./reader-types.js";
import { PinnedSnapshot } from "./snapshot.js";

const defaultRequestTimeoutMs = 60_000;

/**
 * Opens a catalog for reading and checks that it fits the schema. Needs no lease and writes nothing.
 *
 * Throws CATALOG_NOT_FOUND, CATALOG_NEWER, CATALOG_SCHEMA_MISMATCH, CATALOG_UNREACHABLE, CATALOG_ACCESS_DENIED; the message
 * says what to do.
 */
export async function openReader<S extends CaptureSchema>(options: ReaderOptions<S>): Promise<Reader<S>> {
  const { schema, store } = options;
  const clock = options.clock ?? systemClock;
  const timeoutMs = options.requestTimeoutMs ?? defaultRequestTimeoutMs;
  const tables = tableReferences(schema.name, options.database);
  const name = options.database === undefined ? schema.name : `${options.database}.${schema.name}`;
  const access = catalogAccess({ client: options.client, name, requestTimeoutMs: timeoutMs, clock: options.clock });
  await checkStamp(access, stampStatement(tables), schema);
  let closed = false;
  const checkOpen = () => {
    if (closed) throw new ReaderError("READER_CLOSED", `the reader of catalog ${name} was closed; open another`);
  };
  const context = { access, tables, schema, payloads: { store, clock, timeoutMs }, checkOpen };
  const close = () => {
    closed = true;
    return Promise.resolve();
  };
  return {
    close,
    [Symbol.asyncDispose]: close,
    async snapshot(o = {}) {
      checkOpen();
      const [row] = await access.rows(
        headStatement(tables),
        {},
        { signal: o.signal, deciding: o.version !== undefined },
      );
      const head = BigInt((row?.[0] ?? 0) as string);
      const version = o.version ?? head;
      if (version < 0n || version > head) {
        throw new ReaderError(
          "SNAPSHOT_NOT_FOUND",
          `catalog ${name} has no snapshot ${version.toString()}; its newest is ${head.toString()}`,
        );
      }
      return new PinnedSnapshot(context, version);
    },
  };
}

async function checkStamp(access: CatalogAccess, statement: string, schema: CaptureSchema): Promise<void> {
  const stamp = stampOf(await firstRows(access, statement));
  if (stamp === null) {
    throw new ReaderError(
      "CATALOG_NOT_FOUND",
      `catalog ${access.name} is not installed completely; start a publisher with this schema once`,
    );
  }
  const verdict = compareStamp(stamp, schema);
  switch (verdict.verdict) {
    case "equal":
    case "catalog-ahead":
      return;
    case "newer-layout":
      throw new ReaderError("CATALOG_NEWER", `catalog ${access.name}: ${verdict.problem}`);
    case "schema-ahead": {
      const added = verdict.added.map((column) => column.name).join(", ");
      if (added === "") return;
      throw new ReaderError(
        "CATALOG_SCHEMA_MISMATCH",
        `catalog ${access.name} has no field ${added} yet; start a publisher with schema version ${String(schema.version)} once`,
      );
    }
    case "older-layout":
    case "mismatch":
      throw new ReaderError("CATALOG_SCHEMA_MISMATCH", `catalog ${access.name}: ${verdict.problem}`);
  }
}

/** The first request of all: that nothing answers within the bound means the same here as that nothing answers. */
async function firstRows(access: CatalogAccess, statement: string): Promise<readonly (readonly unknown[])[]> {
  try {
    return await access.rows(statement, {}, { deciding: true });
  } catch (error) {
    const timedOut = error instanceof Error && "code" in error && error.code === "DEADLINE_EXCEEDED";
    throw timedOut ? unreachable(error, access.name) : error;
  }
}

function stampOf(rows: readonly (readonly unknown[])[]): StampRow | null {
  const [row] = rows;
  if (row === undefined) return null;
  const [layout, version, json, applied] = row;
  return {
    layout_version: Number(layout),
    schema_version: Number(version),
    schema_json: String(json),
    applied_at_ns: String(applied),
  };
}
