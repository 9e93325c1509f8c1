import { ClickHouseLogLevel, createClient, type ClickHouseClient } from "@clickhouse/client";
import { startFront, type Front } from "./front.js";
import { createLeaseKeeper, type LeaseKeeper, type LeaseOptions } from "@holdfast/lease-core";
import type { ObjectStore } from "@holdfast/object-store";
import { createPackWriter, type CaptureRecord, type CaptureSchema, type Codec } from "@holdfast/pack-format";
import { createIndexer, packKey, packMetadata, voidKey, type Indexer, type PackRef } from "@holdfast/indexer";
import { createIndexSteps, type IndexSteps } from "@holdfast/indexer/steps";
import { startEmbeddedClickHouse, type EmbeddedClickHouse } from "@holdfast/clickhouse-embedded";
import type { IndexerOptions } from "../../src/indexer-types.js";

/** For tests that wait for a lease to run out. The others take the defaults, which a loaded machine can keep. */
export const smallLease: LeaseOptions = { ttlMs: 3000, publishTimeoutMs: 1000 };
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
};

/** An engine for one test file, with a new database for each test and everything ended that was opened. */
export class Lab implements AsyncDisposable {
  readonly #engine: EmbeddedClickHouse;
  readonly #open: (() => Promise<void>)[] = [];
  readonly client: ClickHouseClient;
  #databases = 0;

  private constructor(engine: EmbeddedClickHouse) {
    this.#engine = engine;
    this.client = createClient({ url: engine.url });
  }

  static async start(): Promise<Lab> {
    return new Lab(await startEmbeddedClickHouse());
  }

  get url(): string {
    return this.#engine.url;
  }

  /** A front before the engine, ended with the test. */
  async front(): Promise<Front> {
    const front = await startFront(this.url);
    this.#open.push(async () => front[Symbol.asyncDispose]());
    return front;
  }

  recentQueries() {
    return this.#engine.recentQueries();
  }

  async database(): Promise<string> {
    const name = `lab_${String(++this.#databases)}`;
    await this.client.command({ query: `CREATE DATABASE ${name}` });
    return name;
  }

  publisher(o: PublisherOptions): Publisher {
    const { url = this.url, lease = {}, ...rest } = o;
    const log = { level: ClickHouseLogLevel.OFF };
    const client = createClient({ url, log });
    const leaseClient = createClient({ url, log, max_open_connections: 1 });
    const keeper = createLeaseKeeper({
      name: o.schema.name,
      client: leaseClient,
      database: o.database,
      lease,
      requestTimeoutMs: 20_000,
    });
    this.#open.push(async () => {
      await keeper.stop();
      await client.close();
      await leaseClient.close();
    });
    const options = { requestTimeoutMs: 20_000, ...rest, client, keeper };
    return { client, keeper, indexer: createIndexer(options), steps: createIndexSteps(options) };
  }

  /** A publisher that has installed the catalog and holds the lease. */
  async held(o: PublisherOptions): Promise<Publisher> {
    const publisher = this.publisher(o);
    await publisher.indexer.ensureSchema();
    await publisher.keeper.acquire();
    return publisher;
  }

  async rows<Row>(query: string): Promise<Row[]> {
    return (await this.client.query({ query, format: "JSONEachRow" })).json<Row>();
  }

  /** A client of its own, ended with the test. */
  clientOf(url: string): ClickHouseClient {
    const client = createClient({ url, log: { level: ClickHouseLogLevel.OFF } });
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
    await this.#engine.stop();
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
