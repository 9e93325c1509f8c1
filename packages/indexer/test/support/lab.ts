import {
  ClickHouseLogLevel,
  createClient,
  type ClickHouseClient,
  type ClickHouseClientConfigOptions,
} from "@clickhouse/client";
import { PacedClock, SleepClock, type MovableClock } from "./clocks.js";
import { startFront, type Front } from "./front.js";
import { createLeaseKeeper, type LeaseKeeper, type LeaseOptions } from "@holdfast/lease-core";
import { memoryStore, type ObjectStore } from "@holdfast/object-store";
import { createPackWriter, type CaptureRecord, type CaptureSchema, type Codec } from "@holdfast/pack-format";
import { createIndexer, packKey, packMetadata, voidKey, type Indexer, type PackRef } from "@holdfast/indexer";
import { createIndexSteps, type IndexSteps } from "@holdfast/indexer/steps";
import { Lateness } from "@holdfast-private/tests-machine";
import { openTestClickHouse, type TestClickHouse } from "@holdfast-private/tests-clickhouse";
import type { IndexerOptions } from "../../src/indexer-types.js";

/** The lease of tests that wait for none to run out: no machine is so slow that it loses this one. */
const steadyLease: LeaseOptions = { ttlMs: 600_000, publishTimeoutMs: 60_000, acquirePollMs: 100 };
/** So long that it is always the lease that ends a statement, where one is to be ended. */
const requestTimeoutMs = 3_600_000;
const signal = new AbortController().signal;

export const uuid = (n: number): string => `018f0000-0000-7000-8000-${n.toString(16).padStart(12, "0")}`;

/** One publisher: its own client, keeper and indexer over the same catalog as any other. */
export type Publisher = {
  readonly client: ClickHouseClient;
  readonly keeper: LeaseKeeper;
  readonly indexer: Indexer;
  readonly steps: IndexSteps;
};

export type PublisherOptions = Omit<Partial<IndexerOptions>, "client" | "keeper"> & {
  schema: CaptureSchema;
  store: ObjectStore;
  database: string;
  url?: string;
  lease?: LeaseOptions;
  /** Of the keeper, and of the indexer when that is given none. */
  leaseClock?: MovableClock;
};

/** A server for one test file, with a new database for each test and everything ended that was opened. */
export class Lab implements AsyncDisposable {
  readonly #server: TestClickHouse;
  readonly #open: (() => Promise<void>)[] = [];
  readonly #templates = new Map<CaptureSchema, Promise<string>>();
  readonly client: ClickHouseClient;

  private constructor(server: TestClickHouse) {
    this.#server = server;
    this.client = this.#client(server.url);
  }

  static async start(): Promise<Lab> {
    return new Lab(await openTestClickHouse({ password: "laboratory" }));
  }

  get url(): string {
    return this.#server.url;
  }

  /**
   * A clock for schema leases, whose waits are fixed and whose claims have 2.5 s for two statements: slower than this machine's where that is
   * more than five times slower than a quiet one. All who compete must use the same one.
   */
  async schemaClock(): Promise<PacedClock> {
    await using lateness = await Lateness.start(this.#server);
    return new PacedClock(Math.max(1, (await lateness.pace()) / 5));
  }

  /** A front before the server, ended with the test. */
  async front(): Promise<Front> {
    const front = await startFront(this.url);
    this.#open.push(async () => front[Symbol.asyncDispose]());
    return front;
  }

  database(): Promise<string> {
    return this.#server.database();
  }

  publisher(o: PublisherOptions): Publisher {
    const { url = this.url, lease = steadyLease, leaseClock, ...rest } = o;
    const client = this.#client(url);
    const leaseClient = this.#client(url, { max_open_connections: 1 });
    const clock = leaseClock === undefined ? {} : { clock: leaseClock };
    const keeper = createLeaseKeeper({
      name: o.schema.name,
      client: leaseClient,
      database: o.database,
      lease,
      requestTimeoutMs,
      ...clock,
    });
    this.#open.push(async () => {
      await keeper.stop();
      await client.close();
      await leaseClient.close();
    });
    const options = { requestTimeoutMs, ...clock, ...rest, client, keeper };
    return { client, keeper, indexer: createIndexer(options), steps: createIndexSteps(options) };
  }

  /** Installs a catalog, or upgrades it to a schema, for tests about something else. No other process competes, so the settle is skipped. */
  async install(o: PublisherOptions): Promise<void> {
    await this.publisher({ ...o, clock: new SleepClock() }).indexer.ensureSchema();
  }

  /**
   * The same for a database that has nothing of the schema: one is installed as users do it, the others are copies of its tables, which the
   * engine makes in a third of the time.
   */
  async #copyOfInstalled({ schema, database }: PublisherOptions): Promise<void> {
    const made = this.#templates.get(schema) ?? this.#template(schema);
    this.#templates.set(schema, made);
    const [from, there] = [await this.#tables(await made), new Set(await this.#tables(database))];
    for (const name of from.filter((one) => !there.has(one))) {
      await this.write(`CREATE TABLE ${database}.${name} AS ${await made}.${name}`);
      await this.write(`INSERT INTO ${database}.${name} SELECT * FROM ${await made}.${name}`);
    }
  }

  async #tables(database: string): Promise<string[]> {
    const rows = await this.rows<{ name: string }>(`SELECT name FROM system.tables WHERE database = '${database}'`);
    return rows.map(({ name }) => name);
  }

  async #template(schema: CaptureSchema): Promise<string> {
    const database = await this.database();
    const clock = new SleepClock();
    await this.publisher({ schema, database, store: memoryStore(), clock }).indexer.ensureSchema();
    return database;
  }

  /** A publisher whose catalog is installed and who holds the lease. */
  async held(o: PublisherOptions): Promise<Publisher> {
    const has = (await this.#tables(o.database)).some((name) => name.startsWith(`${o.schema.name}_`));
    await (has ? this.install(o) : this.#copyOfInstalled(o));
    const publisher = this.publisher(o);
    await publisher.keeper.acquire();
    return publisher;
  }

  /** Ends a lease at the server, as its holder's own tombstone would; the holder does not know. */
  async supersede(o: { readonly schema: CaptureSchema; readonly database: string }): Promise<void> {
    const table = `${o.database}.holdfast_publisher_lease`;
    await this.write(
      `INSERT INTO ${table} SELECT name, term, lease_id, 'test', toUInt64(toUnixTimestamp64Nano(now64(9))) AS t, t ` +
        `FROM ${table} WHERE name = '${o.schema.name}' ORDER BY term DESC LIMIT 1`,
    );
  }

  /** Lets a lease run out, by its holder's clock and by the server's, without a wait. */
  async lapse(holder: Publisher, o: PublisherOptions & { readonly leaseClock: MovableClock }): Promise<void> {
    await this.supersede(o);
    // A claim that timed out is waited out for another TTL.
    o.leaseClock.move(2 * holder.keeper.config.ttlMs);
  }

  async rows<Row>(query: string): Promise<Row[]> {
    return (await this.client.query({ query, format: "JSONEachRow" })).json<Row>();
  }

  /** A client of its own, ended with the test. */
  clientOf(url: string, config: ClickHouseClientConfigOptions = {}): ClickHouseClient {
    const client = this.#client(url, config);
    this.#open.push(() => client.close());
    return client;
  }

  async write(query: string): Promise<void> {
    await this.client.command({ query });
  }

  /** Ends what tests opened. */
  async settle(): Promise<void> {
    for (const close of this.#open.splice(0).reverse()) await close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.settle();
    await this.client.close();
    await this.#server.stop();
  }

  #client(url: string, config: ClickHouseClientConfigOptions = {}): ClickHouseClient {
    const { username, password } = this.#server;
    const log = { level: ClickHouseLogLevel.OFF };
    return createClient({ url, username, password, log, request_timeout: 600_000, ...config });
  }
}

let packs = 0;

/** Writes a sealed pack into the store, under the key and with the metadata that a capture service gives it. */
export async function putPack(
  store: ObjectStore,
  schema: CaptureSchema,
  records: readonly CaptureRecord[],
  o: { writerId?: string; sequence?: bigint; packId?: string; codec?: Codec; catalog?: string } = {},
): Promise<PackRef> {
  packs += 1;
  const packId = o.packId ?? uuid(0x100000 + packs);
  const writerId = o.writerId ?? uuid(1);
  const sequence = o.sequence ?? BigInt(packs);
  const writer = createPackWriter({ schema, packId, writerId, sequence, codec: o.codec ?? "none" });
  const block = await writer.encodeBlock(records);
  const tail = await writer.finish();
  const bytes = Buffer.concat([writer.header, block, tail.bytes]);
  const key = packKey({ catalog: o.catalog ?? schema.name, writerId, sequence, packId });
  const metadata = packMetadata({ packId, sha256: tail.packSha256, records: records.length, schema });
  const put = await store.put(key, bytes, { mode: "create", metadata, signal });
  if (put.outcome !== "created") throw new Error(`put of ${key}: ${put.outcome}`);
  return {
    storeId: store.storeId,
    key,
    packId,
    writerId,
    sequence,
    bytes: bytes.length,
    sha256: tail.packSha256,
    records: records.length,
  };
}

export async function putVoid(store: ObjectStore, o: { catalog: string; writerId: string; sequence: bigint }) {
  await store.put(voidKey(o), new Uint8Array(), { mode: "create", signal });
}
