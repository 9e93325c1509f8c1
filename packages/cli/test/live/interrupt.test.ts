// Goal: the first Ctrl-C ends a demo that waits, and gives its lease back. Method: a demo in this process, whose signal is aborted while its
// store holds an upload. A demo that ignored its signal would wait for ten minutes.
import type { EmbeddedClickHouse } from "@holdfast/clickhouse-embedded";
import type { ObjectStore } from "@holdfast/object-store";
import { expect, it } from "vitest";
import { installedPeers, type Peers } from "../../src/peers.js";
import { holdfast, patient } from "./helpers.js";

/** What the demo needs, with another store, and something done before its engine is stopped. */
function demoPeers(o: {
  store: (store: ObjectStore) => ObjectStore;
  beforeStop: (url: string) => Promise<void>;
}): Peers {
  return {
    ...installedPeers,
    "@holdfast/storage-fs": async () => {
      const real = await installedPeers["@holdfast/storage-fs"]();
      return { ...real, fsStore: (options) => o.store(real.fsStore(options)) };
    },
    "@holdfast/clickhouse-embedded": async () => {
      const real = await installedPeers["@holdfast/clickhouse-embedded"]();
      const startEmbeddedClickHouse = async (options = {}): Promise<EmbeddedClickHouse> => {
        const engine = await real.startEmbeddedClickHouse(options);
        const stop = async (): Promise<void> => {
          try {
            await o.beforeStop(engine.url);
          } finally {
            await engine.stop();
          }
        };
        const { url, pid, dataDir } = engine;
        const recentQueries = (): ReturnType<EmbeddedClickHouse["recentQueries"]> => engine.recentQueries();
        return { url, pid, dataDir, stop, recentQueries, [Symbol.asyncDispose]: stop };
      };
      return { ...real, startEmbeddedClickHouse };
    },
  };
}

/** The same store, whose puts do not end before their signal is aborted. */
function withoutPuts(store: ObjectStore, onPut: () => void): ObjectStore {
  return {
    contract: 1,
    storeId: store.storeId,
    capabilities: store.capabilities,
    put: (_key, _body, { signal }) => {
      onPut();
      return new Promise((resolve) => {
        const error = new Error("held by the test");
        signal.addEventListener("abort", () => resolve({ outcome: "unknown", error }), { once: true });
      });
    },
    get: (key, o) => store.get(key, o),
    head: (key, o) => store.head(key, o),
    list: (o) => store.list(o),
    delete: (key, o) => store.delete(key, o),
  };
}

it(
  "Ctrl-C ends a demo that waits for its records to be found: exit code 130, and the lease is free",
  { tags: ["slow"] },
  async () => {
    const stop = new AbortController();
    let onPut = (): void => undefined;
    let onAppended = (): void => undefined;
    const put = new Promise<void>((resolve) => (onPut = resolve));
    const appended = new Promise<void>((resolve) => (onAppended = resolve));
    let status = "";
    const peers = demoPeers({
      store: (store) => withoutPuts(store, onPut),
      beforeStop: async (url) => {
        status = (await holdfast(["status", "--catalog", url, ...patient])).out;
      },
    });
    const onOut = (out: string): void => (out.includes("  append") ? onAppended() : undefined);
    const demo = holdfast(["demo", "--records", "10"], { signal: stop.signal, peers, onOut });
    // The appends are over, so the demo waits for its records to be published.
    await Promise.race([Promise.all([put, appended]), demo]);
    stop.abort(new Error("stopped by SIGINT"));
    expect(await demo).toMatchObject({ code: 130, err: "" });
    expect(status).toMatch(/records +0\n/);
    expect(status).toMatch(/^ {2}lease +free for/m);
  },
);
