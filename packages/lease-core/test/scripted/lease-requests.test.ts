/**
 * Goal: what the lease sends, with which limits, and how it judges each failure of each request. Method: the real keeper, adapter and HTTP
 * client against a scripted server; its log is the oracle. Times are judged only where a requirement gives numbers.
 */
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setMaxListeners } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { Agent } from "node:http";
import { ClickHouseLogLevel, createClient, type ClickHouseClient } from "@clickhouse/client";
import { systemClock, within } from "@holdfast/deadline-http";
import { bind } from "@holdfast/deadline-http/clickhouse";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  ClickHouseLeaseTable,
  createLeaseKeeper,
  leaseConfig,
  LeaseCoordinator,
  type LeaseKeeper,
  type LeaseKeeperOptions,
} from "../../src/index.js";
import { failureOf, seeded, smallRequestTimeoutMs, smallSet } from "../support/keepers.js";
import { quietClient, ScriptedClickHouse, type Operation } from "../support/scripted-clickhouse.js";

let server: ScriptedClickHouse;
let client: ClickHouseClient;
const keepers: LeaseKeeper[] = [];

// A machine that does not let this process run is no fault of a bound: the longest such pause is measured, and allowed.
const delay = monitorEventLoopDelay({ resolution: 5 });
const loopDelayMs = () => delay.max / 1e6;

beforeEach(async () => {
  delay.reset();
  delay.enable();
  server = await ScriptedClickHouse.start();
  client = quietClient(server.url);
});
afterEach(async () => {
  server.script = () => undefined;
  if (server.arrivals.length > 0) await server.listen().catch(() => undefined);
  for (const one of keepers.splice(0)) await one.stop();
  await client.close();
  await server.stop();
});

function keeper(o: Partial<LeaseKeeperOptions> = {}): LeaseKeeper {
  const one = createLeaseKeeper({
    name: "job",
    holder: "one",
    client,
    lease: smallSet,
    requestTimeoutMs: smallRequestTimeoutMs,
    ...o,
  });
  keepers.push(one);
  return one;
}

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
async function until(condition: () => boolean, limitMs = 15_000): Promise<void> {
  for (const end = performance.now() + limitMs; !condition(); await sleep(5)) {
    if (performance.now() > end) throw new Error("the condition did not come true");
  }
}
async function timed<T>(work: Promise<T>): Promise<{ result: T; ms: number }> {
  const start = performance.now();
  const result = await work;
  return { result, ms: performance.now() - start };
}

describe("bounds", () => {
  it.each<[Operation, number, number]>([
    ["head", 20_000, 1000],
    ["claim", 20_000, 1000],
    ["term", 20_000, 1000],
    ["head", 600, 600],
    ["claim", 600, 600],
    ["term", 600, 600],
  ])(
    "LS-03 LS-11 a first claim whose %s stalls (request timeout %i) ends by %i ms and names the settings",
    async (stalled, requestTimeoutMs, bound) => {
      server.script = ({ operation }) => (operation === stalled ? { stall: true } : undefined);
      const one = keeper({ requestTimeoutMs, lease: { ...smallSet, publishTimeoutMs: 300 } });
      const error = await failureOf(one.acquire({ waitMs: 0 }));
      const ms = performance.now() - server.of(stalled)[0]!.at;
      // Counted from its arrival, which is a little after its start.
      expect(ms).toBeGreaterThanOrEqual(bound - 100 - loopDelayMs());
      expect(ms).toBeLessThanOrEqual(bound + 100 + loopDelayMs());
      for (const text of [`lease.ttlMs = 3000`, `catalog.requestTimeoutMs = ${requestTimeoutMs}`, String(bound)])
        expect(error.message).toContain(text);
      // Quarantined exactly when the INSERT reached the server.
      expect(one.status().state).toBe(stalled === "head" ? "none" : "quarantined");
      expect(server.of("claim")).toHaveLength(stalled === "head" ? 0 : 1);
      expect(error).toMatchObject({ timedOut: true });
    },
  );

  it.each<Operation>(["head", "claim", "term"])(
    "LS-10 a renewal whose %s stalls fails at the lease deadline, with the row still live and all the time used",
    async (stalled) => {
      const one = keeper();
      await one.acquire();
      const sent = server.of("claim")[0]!.at;
      server.script = ({ operation }) => (operation === stalled ? { stall: true } : undefined);
      let lostAt = 0;
      one.onChange(({ to }) => {
        if (to === "quarantined") lostAt = performance.now();
      });
      await until(() => lostAt > 0);
      expect(lostAt - sent).toBeGreaterThanOrEqual(2800 - loopDelayMs());
      expect(lostAt - sent).toBeLessThanOrEqual(2950 + loopDelayMs());
      expect(server.rows[0]!.expiresNs).toBeGreaterThan(
        server.nowNs() - BigInt(Math.round((performance.now() - lostAt) * 1e6)),
      );
      expect(one.status().leaseTimeouts).toBe(1);
      expect(server.of("tombstone")).toHaveLength(0);
    },
  );

  it("LS-12 a slow but healthy server does not fail a claim that stays inside the bound per request", async () => {
    // The default set: head read 2 s, INSERT 4 s, read-back 2 s, each inside 5 s.
    server.script = ({ operation }) => ({ delayMs: operation === "claim" ? 4000 : 2000 });
    const one = keeper({ lease: {}, requestTimeoutMs: 60_000 });
    await one.acquire({ waitMs: 0 });
    expect(one.status()).toMatchObject({ state: "held", leaseTimeouts: 0, leaseTimeoutError: null });
    server.script = () => undefined;
  });

  it("LS-13 a claim that cannot be confirmed by its own deadline fails as a timeout that names TTL and skew", async () => {
    server.script = ({ operation }) => ({
      delayMs: operation === "claim" || operation === "term" ? 950 : 0,
    });
    const one = keeper({ lease: { ...smallSet, clockSkewMs: 1200 } });
    const states: string[] = [];
    one.onChange(({ to }) => states.push(to));
    const failing = failureOf(one.acquire({ waitMs: 0 }));
    const error = await failing;
    const ms = performance.now() - server.of("claim")[0]!.at;
    expect(ms).toBeGreaterThanOrEqual(1600 - loopDelayMs());
    expect(ms).toBeLessThanOrEqual(1800 + loopDelayMs());
    expect(error.message).toContain("lease.ttlMs = 3000");
    expect(error.message).toContain("lease.clockSkewMs = 1200");
    expect(states).toEqual(["quarantined"]);
  });

  it("LK-24 a caller's deadline ends the caller, not sent, and never the renewal that it waits for", async () => {
    const one = keeper();
    await one.acquire();
    await until(() => server.of("claim").length === 2);
    await sleep(700);
    server.script = ({ operation }) => (operation === "claim" ? { delayMs: 1000 } : undefined);
    await until(() => server.of("claim").length === 3);
    const { result, ms } = await timed(failureOf(within(200, () => one.exclusive(async () => "ran"))));
    expect(result).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
    expect(ms).toBeLessThanOrEqual(300 + loopDelayMs());
    await until(() => one.status().renewals === 2);
    expect(one.status()).toMatchObject({ state: "held", leaseTimeouts: 0 });
  });
});

describe("limits at the server", () => {
  const cap = (settings: Readonly<Record<string, string>>) => {
    expect(settings["lock_acquire_timeout"]).toBe(settings["max_execution_time"]);
    expect(settings["timeout_overflow_mode"]).toBe("throw");
    expect(settings).toMatchObject({ async_insert: "0", insert_deduplicate: "0" });
    return Number(settings["max_execution_time"]);
  };

  it("LS-05 claim, renewal and tombstone carry the time that they have (small set)", async () => {
    const one = keeper();
    await one.acquire();
    await until(() => one.status().renewals === 1);
    await one.stop();
    const [claim, renewal] = server.of("claim").map(({ settings }) => cap(settings));
    const tombstone = cap(server.of("tombstone")[0]!.settings);
    expect(claim).toBeLessThanOrEqual(1);
    expect(claim).toBeGreaterThan(0.9 - loopDelayMs() / 1000);
    expect(renewal).toBeLessThan(1.9);
    expect(tombstone).toBeLessThan(2.9);
    for (const { settings } of server.of("head")) expect(settings).not.toHaveProperty("max_execution_time");
  });

  it("LS-05 LS-08 LS-09 default set: caps in their ranges, no quorum and no sequential reads on a single server", async () => {
    const config = leaseConfig();
    const table = new ClickHouseLeaseTable({ client, config });
    const holder = new LeaseCoordinator({
      table,
      name: "job",
      holder: "one",
      config,
      clock: systemClock,
      random: seeded(1),
    });
    const first = await holder.claim(null);
    if (first.result !== "held") throw new Error(`not held: ${first.result}`);
    const second = await holder.claim(first.lease);
    if (second.result !== "held") throw new Error(`not held: ${second.result}`);
    await holder.release(second.lease);
    const [claim, renewal] = server.of("claim").map(({ settings }) => cap(settings));
    expect(claim).toBeGreaterThan(4.9 - loopDelayMs() / 1000);
    expect(claim).toBeLessThanOrEqual(5);
    for (const longer of [renewal, cap(server.of("tombstone")[0]!.settings)]) {
      expect(longer).toBeGreaterThan(12);
      expect(longer).toBeLessThan(14.9);
    }
    for (const { settings } of server.arrivals) {
      for (const name of [
        "insert_quorum",
        "insert_quorum_parallel",
        "insert_quorum_timeout",
        "select_sequential_consistency",
      ]) {
        expect(settings).not.toHaveProperty(name);
      }
    }
  });

  it.each([
    ["replicated", 2, "2", "1"],
    ["replicated", undefined, "auto", "1"],
    ["cloud", undefined, undefined, "1"],
  ] as const)("LS-08 LS-09 topology %s with quorum %s", async (topology, quorum, insertQuorum, sequential) => {
    const lease = { ...smallSet, clockSkewMs: 100, topology, ...(quorum === undefined ? {} : { quorum }) };
    const one = keeper({ lease });
    await one.acquire();
    await one.stop();
    for (const { settings } of [...server.of("claim"), ...server.of("tombstone")]) {
      expect(settings["insert_quorum"]).toBe(insertQuorum);
      expect(settings["insert_quorum_parallel"]).toBe(insertQuorum === undefined ? undefined : "0");
      if (insertQuorum === undefined) expect(settings).not.toHaveProperty("insert_quorum_timeout");
      else expect(Number(settings["insert_quorum_timeout"])).toBe(Math.min(1000, Math.round(cap(settings) * 1000)));
    }
    for (const { settings } of [...server.of("head"), ...server.of("term")])
      expect(settings["select_sequential_consistency"]).toBe(sequential);
  });

  it("LS-07 an INSERT that leaves on its third attempt is capped by the time left then", async () => {
    // The server stops listening after the head read; the claim finds it again at its third attempt.
    const one = keeper({ client: refusingAfterHead(server, 200) });
    await one.acquire({ waitMs: 0 });
    const claim = server.of("claim")[0]!;
    // The claim bound runs from when the INSERT was handed over, after the head read: arrival + cap never goes past it.
    const waited = claim.at - server.of("head")[0]!.at;
    expect(waited).toBeGreaterThan(250);
    expect(waited + cap(claim.settings) * 1000).toBeLessThanOrEqual(1000 + 60 + loopDelayMs());
    expect(one.status().state).toBe("held");
  });

  it("LS-11 an INSERT that was refused at connect on every attempt wrote nothing: no quarantine, and the next claim is a tick later", async () => {
    const one = keeper({ client: refusingAfterHead(server, 60_000), reacquire: "keep-trying" });
    expect(await one.tryAcquire()).toBe(false);
    expect(one.status()).toMatchObject({ state: "reacquiring" });
    expect(server.rows).toEqual([]);
    const failedAt = performance.now();
    await server.listen();
    await until(() => one.status().state === "held");
    expect(server.of("head").at(-1)!.at - failedAt).toBeGreaterThanOrEqual(400);
    expect(server.of("head").at(-1)!.at - failedAt).toBeLessThanOrEqual(800 + loopDelayMs());
  });

  it.each([
    [408, 159],
    [500, 473],
    [500, 319],
  ])(
    "LS-14 a server limit on a lease INSERT (HTTP %i, code %i) is a timeout of unknown outcome and is sent once",
    async (status, code) => {
      server.script = ({ operation }) => (operation === "claim" ? { error: { status, code } } : undefined);
      const first = keeper({ holder: "first" });
      expect(await failureOf(first.acquire({ waitMs: 0 }))).toMatchObject({
        code: "LEASE_QUARANTINED",
        timedOut: true,
        outcome: "unknown",
      });
      expect(server.of("claim")).toHaveLength(1);
      expect(first.status()).toMatchObject({ state: "quarantined", leaseTimeouts: 1 });
      server.script = () => undefined;
      const second = keeper({ holder: "second", name: "other" });
      await second.acquire();
      server.script = ({ operation }) => (operation === "claim" ? { error: { status, code } } : undefined);
      await until(() => second.status().state === "quarantined");
      expect(server.of("claim")).toHaveLength(3);
      expect(second.status().leaseTimeouts).toBe(1);
    },
  );

  it("an earlier quorum insert that is unfinished (286) wrote nothing, and the claim goes again inside its bound", async () => {
    let times = 0;
    server.script = ({ operation }) =>
      operation === "claim" && (times += 1) === 1 ? { error: { status: 500, code: 286 } } : undefined;
    const one = keeper();
    await one.acquire({ waitMs: 0 });
    expect(server.of("claim")).toHaveLength(2);
    expect(one.status().state).toBe("held");
  });
});

describe("a catalog that is not there", () => {
  it("LK-10 a claim that wrote nothing goes again a tick later, however often it is asked for", async () => {
    let connections = 0;
    const refusing = createServer((socket) => {
      connections += 1;
      socket.resetAndDestroy();
    });
    await new Promise<void>((resolve) => refusing.listen(0, "127.0.0.1", resolve));
    const url = `http://127.0.0.1:${(refusing.address() as AddressInfo).port}`;
    const away = createClient({ url, log: { level: ClickHouseLogLevel.OFF } });
    // T 6000: a tick is 1 s.
    const one = keeper({ client: away, lease: { ttlMs: 6000 }, reacquire: "latch" });
    let asked = 0;
    const start = performance.now();
    while (performance.now() < start + 4000) {
      expect(await one.tryAcquire()).toBe(false);
      asked += 1;
      await sleep(10);
    }
    const seconds = (performance.now() - start) / 1000;
    expect(asked).toBeGreaterThan(40);
    expect(connections).toBeGreaterThanOrEqual(3);
    expect(connections).toBeLessThanOrEqual(3 * (seconds + 2));
    expect(one.status()).toMatchObject({ state: "reacquiring" });
    await one.stop();
    await away.close();
    await new Promise((resolve) => refusing.close(resolve));
  });
});

describe("the server's version", () => {
  it.each([
    ["22.8.21.38", false],
    ["23.7.6.111", false],
    ["23.8.1.2992", true],
    ["24.3.5.46.altinitystable", true],
    ["26.7.1.1", true],
    ["", false],
    ["unknown", false],
  ])("CF-04 %o: accepted %s, and refused before any claim", async (version, accepted) => {
    server.version = version;
    const one = keeper();
    if (accepted) {
      await one.acquire();
      await one.release();
      await one.acquire();
      // Asked once, before the first claim.
      expect(server.arrivals.filter(({ query }) => query.startsWith("SELECT version()"))).toHaveLength(1);
      return;
    }
    const refused = await failureOf(one.acquire());
    expect(refused).toMatchObject({ code: "CONFIG_INVALID" });
    expect(refused.message).toContain(`its version is "${version}"; the lease needs ClickHouse 23.8 or newer`);
    expect(await one.tryAcquire()).toBe(false);
    expect(await failureOf(one.createTable())).toMatchObject({ code: "CONFIG_INVALID" });
    expect(server.arrivals.every(({ query }) => query.startsWith("SELECT version()"))).toBe(true);
  });

  it("CF-04 a keeper that is not to make its table asks all the same", async () => {
    server.version = "22.3.1.1";
    expect(await failureOf(keeper({ createTable: false }).acquire())).toMatchObject({ code: "CONFIG_INVALID" });
    expect(server.of("head")).toEqual([]);
  });
});

describe("one connection", () => {
  it("LS-26 a catalog that refuses connections from a third of the TTL on and comes back costs nothing", async () => {
    // The renewal falls due at 3000, its next try is a tick (1500) later, and the deadline is at 8900.
    const one = keeper({ lease: { ...smallSet, ttlMs: 9000 } });
    const states: string[] = [];
    await one.acquire();
    one.onChange(({ to }) => states.push(to));
    const sent = server.of("claim")[0]!.at;
    await sleep(sent + 2900 - performance.now());
    await server.refuse();
    await sleep(sent + 5700 - performance.now());
    await server.listen();
    await until(() => one.status().renewals === 1);
    // By the order of events: the lease never left the state "held", so the renewal came before its deadline.
    expect(states).toEqual([]);
    expect(one.status()).toMatchObject({ state: "held", leaseTimeouts: 0 });
  });

  it("LS-30 the lease keeps to one kept-alive socket, also when it is idle for longer than the client would keep one", async () => {
    const brief = createClient({
      url: server.url,
      keep_alive: { idle_socket_ttl: 100 },
      log: { level: ClickHouseLogLevel.OFF },
    });
    const one = keeper({ client: brief });
    await one.acquire();
    await until(() => one.status().renewals === 3);
    expect(server.connections).toBe(1);
    await one.stop();
    await brief.close();
  });

  it("LS-30 behind 64 reads that nobody answers a renewal leaves when it is due, on a connection of its own", async () => {
    const busy = createClient({ url: server.url, max_open_connections: 4, log: { level: ClickHouseLogLevel.OFF } });
    server.script = ({ query }) => (query.startsWith("SELECT 'busy'") ? { stall: true } : undefined);
    const before = Object.getOwnPropertyDescriptors(busy);
    const one = keeper({ client: bind(busy) });
    const stop = new AbortController();
    setMaxListeners(64, stop.signal);
    const reads = Array.from({ length: 64 }, () =>
      failureOf(busy.query({ query: "SELECT 'busy'", abort_signal: stop.signal }).then((answer) => answer.text())),
    );
    await until(() => server.of("other").length === 4);
    await one.acquire();
    await until(() => one.status().renewals === 3);
    const claims = server.of("claim");
    const lease = server.arrivals.filter(({ query }) => !query.startsWith("SELECT 'busy'"));
    expect(new Set(lease.map(({ connection }) => connection)).size).toBe(1);
    expect(server.connections).toBe(5);
    for (const [i, { at }] of server.of("head").slice(1).entries()) {
      expect(at - claims[i]!.at - 1000).toBeLessThanOrEqual(20 + loopDelayMs());
    }
    // The user's client is as it was, and stays open when the keeper has closed its own.
    expect(Object.getOwnPropertyDescriptors(busy)).toEqual(before);
    await one.stop();
    stop.abort();
    await Promise.all(reads);
    expect(await (await busy.query({ query: "SELECT version()", format: "JSONEachRow" })).json()).toHaveLength(1);
    await busy.close();
  });

  it("LS-30 a client with an agent of its user's goes through that agent", async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const injected = createClient({ url: server.url, http_agent: agent, log: { level: ClickHouseLogLevel.OFF } });
    const table = new ClickHouseLeaseTable({ client: injected, config: leaseConfig() });
    expect(table.ownConnection).toBe(false);
    await table.readHead("job");
    expect(Object.values(agent.freeSockets)).toHaveLength(1);
    // Not ours to close.
    await table.close();
    expect(Object.values(agent.freeSockets)).toHaveLength(1);
    await injected.close();
    agent.destroy();
  });
});

/** A client without kept-alive sockets, whose server stops listening before the head read is answered: for `ms`, or till the test says so. */
function refusingAfterHead(at: ScriptedClickHouse, ms: number): ClickHouseClient {
  let headSeen = false;
  at.script = ({ operation }) => {
    if (operation !== "head" || headSeen) return undefined;
    headSeen = true;
    // The connection of the head read ends by itself; the INSERT, which comes after its answer, is refused.
    const refused = at.refuse({ finish: true });
    if (ms < 10_000) void refused.then(() => setTimeout(() => void at.listen(), ms));
    return { delayMs: 20 };
  };
  return quietClient(at.url, { keepAlive: false });
}
