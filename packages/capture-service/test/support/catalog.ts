import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient, type ClickHouseClient } from "@clickhouse/client";
import { startEmbeddedClickHouse, type EmbeddedClickHouse } from "@holdfast/clickhouse-embedded";
import type { ObjectStore } from "@holdfast/object-store";
import { defineCaptureSchema } from "@holdfast/pack-format";
import { openReader } from "@holdfast/reader";
import { fsStore } from "@holdfast/storage-fs";
import type { CaptureService, CaptureServiceConfig } from "../../src/index.js";
import { createServiceOn } from "../../src/service.js";
import { nodeFiles, type SpoolFiles } from "../../src/spool/files.js";
import { Lateness } from "./lateness.js";
import { Proxy } from "./proxy.js";
import { payloadOf } from "./spool.js";
import { SwitchStore } from "./switch-store.js";

let made = 0;

/** A schema of its own for each test: so a catalog, a lease and a key prefix of its own. */
export function freshSchema() {
  return defineCaptureSchema({
    name: `notes_${process.pid}_${(made += 1)}`,
    version: 1,
    fields: { kind: "LowCardinality(String)", step: "UInt64" },
    orderBy: ["kind", "step"],
  });
}
export type NotesSchema = ReturnType<typeof freshSchema>;
type Config = CaptureServiceConfig<NotesSchema>;

export const smallLease = { ttlMs: 3000, publishTimeoutMs: 1000 } as const;

/** An engine, a directory that goes when the test file ends, and what is made of the two. */
export class Rig {
  readonly #services: CaptureService<NotesSchema>[] = [];
  readonly #proxies: Proxy[] = [];
  readonly #lateness: Lateness;
  private constructor(
    readonly engine: EmbeddedClickHouse,
    readonly directory: string,
  ) {
    this.#lateness = new Lateness({ url: engine.url, username: "default", password: "secret" });
  }

  static async open(): Promise<Rig> {
    const [engine, directory] = await Promise.all([
      startEmbeddedClickHouse({ password: "secret" }),
      mkdtemp(join(tmpdir(), "holdfast-capture-")),
    ]);
    return new Rig(engine, directory);
  }

  async close(): Promise<void> {
    await Promise.all(this.#services.map((service) => service.stop()));
    await Promise.all(this.#proxies.map((proxy) => proxy.close()));
    await this.#lateness[Symbol.asyncDispose]();
    await this.engine.stop();
    await rm(this.directory, { recursive: true, force: true });
  }

  get catalog() {
    return { url: this.engine.url, username: "default", password: "secret", requestTimeoutMs: 20_000 };
  }
  client(): ClickHouseClient {
    return createClient({ url: this.engine.url, username: "default", password: "secret" });
  }
  /** How late this machine has been since `fromMs`, see {@link Lateness}: added to what a requirement allows. */
  lateMs(fromMs: number): number {
    return this.#lateness.sinceMs(fromMs);
  }
  path(name: string): string {
    return join(this.directory, name);
  }
  store(name: string): SwitchStore {
    return new SwitchStore(fsStore({ directory: this.path(name), storeId: name }));
  }
  /** A proxy before the engine, closed at the end of the file. */
  async proxy(): Promise<Proxy> {
    const proxy = await Proxy.open(this.engine.url);
    this.#proxies.push(proxy);
    return proxy;
  }
  /** Rows of a query, straight from the engine. */
  async rows<Row>(query: string): Promise<Row[]> {
    const client = this.client();
    try {
      return await (await client.query({ query, format: "JSONEachRow" })).json<Row>();
    } finally {
      await client.close();
    }
  }

  /** A service with quick settings, stopped at the end of the file. */
  service(
    schema: NotesSchema,
    changed: Partial<Omit<Config, "spool">> & Pick<Config, "store"> & { spool?: Partial<Config["spool"]> },
    files: SpoolFiles = nodeFiles(),
  ) {
    const { spool, ...rest } = changed;
    const config: Config = {
      schema,
      lease: smallLease,
      publishIntervalMs: 100,
      ...(changed.role === "capture-only" ? {} : { catalog: this.catalog }),
      ...rest,
      spool: { directory: this.path(`spool-${schema.name}`), maxLingerMs: 100, ...spool },
    };
    if (config.role === "capture-only") delete (config as { lease?: unknown }).lease;
    const service = createServiceOn(config, files);
    this.#services.push(service);
    return service;
  }

  /** Ids of all visible records with the number of times each is; every payload is checked. */
  async visible(schema: NotesSchema, store: ObjectStore): Promise<Map<string, number>> {
    const client = this.client();
    try {
      const reader = await openReader({ client, schema, store });
      const snapshot = await reader.snapshot();
      const seen = new Map<string, number>();
      let cursor: string | null = null;
      do {
        const page = await snapshot.search({ limit: 500, ...(cursor === null ? {} : { cursor }) });
        for await (const { record, payload } of snapshot.read(page.records)) {
          const { captureId } = record;
          if (Buffer.compare(payload, payloadOf(captureId, payload.byteLength)) !== 0)
            throw new Error(`payload of ${captureId}`);
          seen.set(captureId, (seen.get(captureId) ?? 0) + 1);
        }
        cursor = page.cursor;
      } while (cursor !== null);
      return seen;
    } finally {
      await client.close();
    }
  }
}

/** Statements of the lease, as a proxy sees them. */
export const leaseRead = /^\s*SELECT[\s\S]*holdfast_publisher_lease/;
export const leaseInsert = /^\s*INSERT INTO \S*holdfast_publisher_lease/;
export const versionClaim = /^\s*INSERT INTO \S*_version_claim/;

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Makes the tables of a catalog, so that a test sees only what it is about. */
export async function install(rig: Rig, schema: NotesSchema): Promise<void> {
  const spool = { directory: rig.path(`install-${schema.name}`) };
  const service = rig.service(schema, { store: rig.store(`store-${schema.name}`), spool });
  await service.start();
  await service.stop();
}

export function note(captureId: string, bytes = 500) {
  return {
    captureId,
    scope: { tenant: "acme", session: "run-1" },
    fields: { kind: "test", step: 7n },
    payload: payloadOf(captureId, bytes),
  };
}

/** Polls a condition that time brings about, and fails by name when it does not come. */
export async function until(
  what: string,
  condition: () => boolean | Promise<boolean>,
  withinMs = 20_000,
): Promise<void> {
  const end = performance.now() + withinMs;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`${what}: not within ${withinMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
