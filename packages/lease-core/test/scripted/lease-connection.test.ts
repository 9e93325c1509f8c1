/**
 * Goal: how the lease reaches its server: by one connection of its own, as often as it should when it is not there, and no server that is too
 * old. Method: the real keeper, adapter and HTTP client against a scripted server, whose log is the oracle, by a virtual clock.
 */
import { setMaxListeners } from "node:events";
import { Agent } from "node:http";
import { ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { bind } from "@holdfast/deadline-http/clickhouse";
import { until } from "@holdfast-private/tests-machine";
import { describe, expect, it } from "vitest";
import { ClickHouseLeaseTable, leaseConfig, type LeaseKeeper } from "../../src/index.js";
import { ClientSockets } from "../support/client-sockets.js";
import { failureOf, smallSet } from "../support/keepers.js";
import { ScriptedKeepers } from "../support/scripted-keepers.js";

const place = new ScriptedKeepers();

describe("a catalog that is not there", () => {
  it("LK-10 a claim that wrote nothing goes again a tick later, however often it is asked for", async () => {
    await place.server.refuse();
    using sockets = new ClientSockets(place.server.url);
    // T 6000: a tick is 1 s.
    const one = place.keeper({ lease: { ttlMs: 6000 }, reacquire: "latch" });
    const refusedAtOnce = async () => {
      const trying = one.tryAcquire();
      expect(await place.pending(trying)).toBe(false);
      expect(await trying).toBe(false);
    };
    for (let claims = 1; claims <= 4; claims++) {
      // From the second on the keeper claims by itself.
      const trying = one.tryAcquire();
      await place.twiceRefused(sockets, 3 * (claims - 1));
      expect(await trying).toBe(false);
      // Three attempts of one request, and none more until the tick is over.
      for (let asked = 0; asked < 40; asked++) await refusedAtOnce();
      await place.clock.advance(999);
      await refusedAtOnce();
      expect(sockets.refused).toBe(3 * claims);
      await place.clock.advance(1);
    }
    expect(one.status()).toMatchObject({ state: "reacquiring" });
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
    place.server.version = version;
    const one = place.keeper();
    if (accepted) {
      await one.acquire();
      await one.release();
      await one.acquire();
      // Asked once, before the first claim.
      expect(place.server.arrivals.filter(({ query }) => query.startsWith("SELECT version()"))).toHaveLength(1);
      return;
    }
    const refused = await failureOf(one.acquire());
    expect(refused).toMatchObject({ code: "CONFIG_INVALID" });
    expect(refused.message).toContain(`its version is "${version}"; the lease needs ClickHouse 23.8 or newer`);
    expect(await one.tryAcquire()).toBe(false);
    expect(await failureOf(one.createTable())).toMatchObject({ code: "CONFIG_INVALID" });
    expect(place.server.arrivals.every(({ query }) => query.startsWith("SELECT version()"))).toBe(true);
  });

  it("CF-04 a keeper that is not to make its table asks all the same", async () => {
    place.server.version = "22.3.1.1";
    expect(await failureOf(place.keeper({ createTable: false }).acquire())).toMatchObject({ code: "CONFIG_INVALID" });
    expect(place.server.of("head")).toEqual([]);
  });
});

describe("one connection", () => {
  it("LS-26 a catalog that refuses connections from a third of the TTL on and comes back costs nothing", async () => {
    // The renewal falls due at 3000, its next try is a tick (1500) after it failed, and the deadline is at 8900.
    const one = place.keeper({ lease: { ...smallSet, ttlMs: 9000 } });
    const states: string[] = [];
    using sockets = new ClientSockets(place.server.url);
    await one.acquire();
    one.onChange(({ to }) => states.push(to));
    await place.clock.advance(2900);
    await place.server.refuse();
    await until("the kept-alive connection is closed", () => sockets.open === 0);
    await place.clock.advance(100);
    await place.twiceRefused(sockets);
    await until("the renewal has failed", () => one.status().lastError !== null);
    expect(one.status()).toMatchObject({ state: "held" });
    await place.server.listen();
    await place.clock.advance(1499);
    expect(place.server.of("head")).toHaveLength(1);
    await place.clock.advance(1);
    await until("the lease has been renewed", () => one.status().renewals === 1);
    expect(place.server.of("head").map(({ at }) => at)).toEqual([1000, 1000 + 3000 + 300 + 1500]);
    expect(states).toEqual([]);
    expect(one.status()).toMatchObject({ state: "held", leaseTimeouts: 0 });
  });

  /** Through renewals that take no time. */
  async function renewals(one: LeaseKeeper, count: number, everyMs: number): Promise<void> {
    for (let done = 1; done <= count; done++) {
      await place.clock.advance(everyMs);
      await until("the lease has been renewed", () => one.status().renewals === done);
    }
  }

  it("LS-30 the lease keeps to one kept-alive socket, also when it is idle for longer than the client would keep one", async () => {
    const brief = createClient({
      url: place.server.url,
      keep_alive: { idle_socket_ttl: 100 },
      log: { level: ClickHouseLogLevel.OFF },
    });
    // So long that it is the limit of no machine: the lease keeps its socket for two thirds of it.
    const ttlMs = 600_000;
    const one = place.keeper({ client: brief, lease: { ttlMs } });
    await one.acquire();
    // The client's own socket, idle for less long than the lease's, is closed by its limit.
    await brief.ping();
    expect(place.server.connections).toBe(2);
    await until("the client's own socket is closed", () => place.server.open < 2);
    expect(place.server.open).toBe(1);
    await renewals(one, 3, ttlMs / 3);
    expect(place.server.connections).toBe(2);
    await one.stop();
    await brief.close();
  });

  it("LS-30 behind 64 reads that nobody answers a renewal leaves when it is due, on a connection of its own", async () => {
    const busy = createClient({
      url: place.server.url,
      max_open_connections: 4,
      log: { level: ClickHouseLogLevel.OFF },
    });
    place.server.script = ({ query }) => (query.startsWith("SELECT 'busy'") ? { stall: true } : undefined);
    const before = Object.getOwnPropertyDescriptors(busy);
    const one = place.keeper({ client: bind(busy) });
    const stop = new AbortController();
    setMaxListeners(64, stop.signal);
    const reads = Array.from({ length: 64 }, () =>
      failureOf(busy.query({ query: "SELECT 'busy'", abort_signal: stop.signal }).then((answer) => answer.text())),
    );
    await place.arrive("other", 4);
    // The rest of them queue for those four connections, and the lease does not.
    const { agent } = (busy as unknown as { connection: { agent: Agent } }).connection;
    const queued = () => Object.values(agent.requests).flatMap((requests) => requests ?? []).length;
    expect(queued()).toBe(60);
    const acquiring = one.acquire();
    await until("the lease has asked", () => place.server.connections === 5 || queued() > 60);
    expect(queued()).toBe(60);
    await acquiring;
    await renewals(one, 3, 1000);
    const claims = place.server.of("claim");
    const lease = place.server.arrivals.filter(({ query }) => !query.startsWith("SELECT 'busy'"));
    expect(new Set(lease.map(({ connection }) => connection)).size).toBe(1);
    expect(place.server.connections).toBe(5);
    const heads = place.server.of("head").slice(1);
    expect(heads.map(({ at }, n) => at - claims[n]!.at)).toEqual([1000, 1000, 1000]);
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
    const injected = createClient({ url: place.server.url, http_agent: agent, log: { level: ClickHouseLogLevel.OFF } });
    const table = new ClickHouseLeaseTable({ client: injected, config: leaseConfig(), clock: place.clock });
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
