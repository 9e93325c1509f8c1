import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ClickHouseLogLevel, createClient, type ClickHouseClient } from "@clickhouse/client";
import { openTestClickHouse, type TestClickHouse } from "@holdfast-private/tests-clickhouse";
import { Lateness } from "@holdfast-private/tests-machine";
import { catalogTables } from "@holdfast/indexer/catalog";
import type { ObjectStore } from "@holdfast/object-store";
import { openReader } from "@holdfast/reader";
import { fsStore } from "@holdfast/storage-fs";
import type { CaptureService, CaptureServiceConfig } from "../../src/index.js";
import { codeOf } from "../../src/errors.js";
import { createServiceOn } from "../../src/service.js";
import { nodeFiles, type SpoolFiles } from "../../src/spool/files.js";
import { foreverMs, freshSchema, patientLease, type NotesSchema } from "./catalog.js";
import { Proxy } from "./proxy.js";
import { SkippingClock } from "./skipping-clock.js";
import { payloadOf } from "./spool.js";
import { SwitchStore } from "./switch-store.js";

type Config = CaptureServiceConfig<NotesSchema>;
/** What a test may say of a service; the rest is the rig's. */
export type Changed = Partial<Omit<Config, "spool" | "store">> & { readonly spool?: Partial<Config["spool"]> };

/** A server, a directory that goes when the test file ends, and what is made of the two. */
export class Rig {
  readonly #services: CaptureService<NotesSchema>[] = [];
  readonly #proxies: Proxy[] = [];
  #installed: Promise<NotesSchema> | null = null;
  private constructor(
    readonly server: TestClickHouse,
    readonly database: string,
    readonly lateness: Lateness,
    readonly directory: string,
  ) {}

  static async open(): Promise<Rig> {
    const [server, directory] = await Promise.all([
      openTestClickHouse({ password: "secret" }),
      mkdtemp(join(tmpdir(), "holdfast-capture-")),
    ]);
    return new Rig(server, await server.database(), await Lateness.start(server), directory);
  }

  async close(): Promise<void> {
    // First what they wait for: a test that failed may have left a service with stalled statements.
    await Promise.all(this.#proxies.map((proxy) => proxy.close()));
    await Promise.all(this.#services.map((service) => service.stop()));
    await this.lateness[Symbol.asyncDispose]();
    await this.server.stop();
    await rm(this.directory, { recursive: true, force: true });
  }

  get catalog() {
    const { url, username, password } = this.server;
    return { url, username, password, database: this.database, requestTimeoutMs: foreverMs };
  }
  client(): ClickHouseClient {
    const { url, username, password } = this.server;
    // It warns of every timeout above 30 s.
    const log = { level: ClickHouseLogLevel.OFF };
    return createClient({ url, username, password, database: this.database, request_timeout: 600_000, log });
  }
  path(name: string): string {
    return join(this.directory, name);
  }
  store(name: string, clock?: SkippingClock): SwitchStore {
    return new SwitchStore(fsStore({ directory: this.path(name), storeId: name }), clock);
  }
  /** A proxy before the server, closed at the end of the file. */
  async proxy(clock?: SkippingClock): Promise<Proxy> {
    const proxy = await Proxy.open(this.server.url, clock === undefined ? {} : { clock });
    this.#proxies.push(proxy);
    return proxy;
  }
  /** Rows of a query, straight from the server. */
  async rows<Row>(query: string): Promise<Row[]> {
    const client = this.client();
    try {
      return await (await client.query({ query, format: "JSONEachRow" })).json<Row>();
    } finally {
      await client.close();
    }
  }
  async command(query: string): Promise<void> {
    const client = this.client();
    try {
      await client.command({ query });
    } finally {
      await client.close();
    }
  }

  /**
   * The lease of a test in which real time has to pass: 3 s on a machine that has nothing else to do, and longer the slower this one is
   * now. It may still be lost at any moment, so such a test asserts only what is true then, too.
   */
  async smallLease(): Promise<{ ttlMs: number; publishTimeoutMs: number }> {
    const pace = Math.min(await this.lateness.pace(), 20);
    return { ttlMs: Math.round(3_000 * pace), publishTimeoutMs: Math.round(1_000 * pace) };
  }

  /** A fresh schema whose tables are there already, so that a test sees only what it is about. */
  async installed(): Promise<NotesSchema> {
    this.#installed ??= this.#install();
    const [from, schema] = [await this.#installed, freshSchema()];
    const [theirs, ours] = [catalogTables(from.name), catalogTables(schema.name)];
    for (const role of Object.keys(ours) as (keyof typeof ours)[]) {
      await this.command(`CREATE TABLE ${ours[role]} AS ${theirs[role]}`);
    }
    // It names the fields, not the schema.
    await this.command(`INSERT INTO ${ours.stamp} SELECT * FROM ${theirs.stamp}`);
    return schema;
  }

  async #install(): Promise<NotesSchema> {
    const schema = freshSchema();
    const spool = { directory: this.path(`install-${schema.name}`) };
    const service = this.service(schema, { store: this.store(`store-${schema.name}`), spool });
    await startInstalling(service);
    await service.stop();
    return schema;
  }

  /** An installed schema, and a service that reaches its catalog through a proxy and its store through switches, on a clock of its own. */
  async stage(changed: Changed = {}, files?: SpoolFiles) {
    const schema = changed.schema ?? (await this.installed());
    const clock = new SkippingClock();
    const proxy = await this.proxy(clock);
    const store = this.store(`store-${schema.name}`, clock);
    const catalog = { ...this.catalog, url: proxy.url };
    const service = this.service(schema, { store, catalog, clock, reconcile: { intervalMs: 0 }, ...changed }, files);
    return { schema, clock, proxy, store, service };
  }

  /** A service with quick settings and a patient lease, stopped at the end of the file. */
  service(schema: NotesSchema, changed: Changed & Pick<Config, "store">, files: SpoolFiles = nodeFiles()) {
    const { spool, ...rest } = changed;
    const ofCatalog = { catalog: this.catalog, lease: patientLease };
    const config: Config = {
      schema,
      publishIntervalMs: 100,
      upload: { timeoutMs: foreverMs },
      ...(changed.role === "capture-only" ? {} : ofCatalog),
      ...rest,
      spool: { directory: this.path(`spool-${schema.name}`), maxLingerMs: 100, ...spool },
    };
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

/**
 * Starts a service that has to make its tables. A claim of the schema lease that takes a slow machine over half a second is left to
 * expire, and after a minute of those the start is refused: not for good, as the error says.
 */
export async function startInstalling(service: CaptureService<NotesSchema>): Promise<void> {
  for (;;) {
    try {
      await service.start();
      return;
    } catch (error) {
      if (codeOf(error) !== "CATALOG_BUSY") throw error;
    }
  }
}
