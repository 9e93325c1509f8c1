/**
 * Goal: what the lease sends, with which limits, and how it judges each failure of each request. Method: the real keeper, adapter and HTTP
 * client against a scripted server, whose log is the oracle, by a virtual clock.
 */
import type { ClickHouseClient } from "@clickhouse/client";
import { within } from "@holdfast/deadline-http";
import { until } from "@holdfast-private/tests-machine";
import { describe, expect, it } from "vitest";
import { ClickHouseLeaseTable, leaseConfig, LeaseCoordinator } from "../../src/index.js";
import { ClientSockets } from "../support/client-sockets.js";
import { failureOf, seeded, smallSet } from "../support/keepers.js";
import { gate, quietClient, type Operation, type ScriptedClickHouse } from "../support/scripted-clickhouse.js";
import { ScriptedKeepers } from "../support/scripted-keepers.js";

const place = new ScriptedKeepers();

describe("bounds", () => {
  it.each<[Operation, number, number]>([
    ["head", 20_000, 1000],
    ["claim", 20_000, 1000],
    ["term", 20_000, 1000],
    ["head", 600, 600],
    ["claim", 600, 600],
    ["term", 600, 600],
  ])(
    "LS-03 LS-11 a first claim whose %s stalls (request timeout %i) ends after %i ms and names the settings",
    async (stalled, requestTimeoutMs, bound) => {
      place.server.script = ({ operation }) => (operation === stalled ? { stall: true } : undefined);
      const one = place.keeper({ requestTimeoutMs, lease: { ...smallSet, publishTimeoutMs: 300 } });
      const failing = failureOf(one.acquire({ waitMs: 0 }));
      await place.arrive(stalled, 1);
      await place.clock.advance(bound - 1);
      expect(await place.pending(failing)).toBe(true);
      await place.clock.advance(1);
      expect(await place.pending(failing)).toBe(false);
      const error = await failing;
      for (const text of [`lease.ttlMs = 3000`, `catalog.requestTimeoutMs = ${requestTimeoutMs}`, String(bound)])
        expect(error.message).toContain(text);
      // Quarantined exactly when the INSERT reached the place.server.
      expect(one.status().state).toBe(stalled === "head" ? "none" : "quarantined");
      expect(place.server.of("claim")).toHaveLength(stalled === "head" ? 0 : 1);
      expect(error).toMatchObject({ timedOut: true });
    },
  );

  it.each<Operation>(["head", "claim", "term"])(
    "LS-10 a renewal whose %s stalls fails at the lease deadline, with the row still live and all the time used",
    async (stalled) => {
      const one = place.keeper();
      await one.acquire();
      const sent = place.server.of("claim")[0]!.at;
      place.server.script = ({ operation }) => (operation === stalled ? { stall: true } : undefined);
      await place.clock.advance(1000);
      await place.arrive(stalled, 2);
      await place.clock.advance(sent + 2899 - place.clock.now());
      expect(one.status()).toMatchObject({ state: "held", leaseTimeouts: 0 });
      await place.clock.advance(1);
      expect(one.status()).toMatchObject({ state: "quarantined", leaseTimeouts: 1 });
      expect(place.server.rows[0]!.expiresNs - place.server.nowNs()).toBe(100_000_000n);
      expect(place.server.of("tombstone")).toHaveLength(0);
    },
  );

  it("LS-12 a slow but healthy server does not fail a claim that stays inside the bound per request", async () => {
    // The default set: head read 2 s, INSERT 4 s, read-back 2 s, each inside 5 s.
    const slow = { head: gate(), claim: gate(), term: gate() };
    place.server.script = ({ operation }) => (operation in slow ? slow[operation as keyof typeof slow] : undefined);
    const one = place.keeper({ lease: {}, requestTimeoutMs: 60_000 });
    const acquiring = one.acquire({ waitMs: 0 });
    for (const [operation, ms] of [
      ["head", 2000],
      ["claim", 4000],
      ["term", 2000],
    ] as const) {
      await place.arrive(operation, 1);
      await place.clock.advance(ms);
      slow[operation].open();
    }
    await acquiring;
    expect(one.status()).toMatchObject({ state: "held", leaseTimeouts: 0, leaseTimeoutError: null });
  });

  it("LS-13 a claim that cannot be confirmed by its own deadline fails as a timeout that names TTL and skew", async () => {
    const inserted = gate();
    place.server.script = ({ operation }) =>
      operation === "claim" ? inserted : operation === "term" ? { stall: true } : undefined;
    const one = place.keeper({ lease: { ...smallSet, clockSkewMs: 1200 } });
    const states: string[] = [];
    one.onChange(({ to }) => states.push(to));
    const failing = failureOf(one.acquire({ waitMs: 0 }));
    await place.arrive("claim", 1);
    await place.clock.advance(950);
    inserted.open();
    await place.arrive("term", 1);
    // 950 ms are inside the claim bound of 1000; the deadline is 1700 after the INSERT was sent.
    await place.clock.advance(749);
    expect(await place.pending(failing)).toBe(true);
    await place.clock.advance(1);
    expect(await place.pending(failing)).toBe(false);
    const error = await failing;
    expect(error.message).toContain("lease.ttlMs = 3000");
    expect(error.message).toContain("lease.clockSkewMs = 1200");
    expect(states).toEqual(["quarantined"]);
  });

  it("LK-24 a caller's deadline ends the caller, not sent, and never the renewal that it waits for", async () => {
    const one = place.keeper();
    await one.acquire();
    const slow = gate();
    place.server.script = ({ operation }) => (operation === "claim" ? slow : undefined);
    await place.clock.advance(1000);
    await place.arrive("claim", 2);
    const calling = failureOf(within(200, () => one.exclusive(async () => "ran"), { clock: place.clock }));
    await place.clock.advance(199);
    expect(await place.pending(calling)).toBe(true);
    await place.clock.advance(1);
    expect(await place.pending(calling)).toBe(false);
    expect(await calling).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
    await place.clock.advance(800);
    slow.open();
    await until("the renewal is over", () => one.status().renewals === 1);
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
    const one = place.keeper();
    await one.acquire();
    await place.clock.advance(1000);
    await until("the lease has been renewed", () => one.status().renewals === 1);
    await place.clock.advance(50);
    await one.stop();
    expect(place.server.of("claim").map(({ settings }) => cap(settings))).toEqual([1, 1.9]);
    expect(place.server.of("tombstone").map(({ settings }) => cap(settings))).toEqual([2.85]);
    for (const { settings } of place.server.of("head")) expect(settings).not.toHaveProperty("max_execution_time");
  });

  it("LS-05 LS-08 LS-09 default set: caps in their ranges, no quorum and no sequential reads on a single server", async () => {
    const config = leaseConfig();
    const { clock, client } = place;
    const table = new ClickHouseLeaseTable({ client, config, clock });
    const holder = new LeaseCoordinator({ table, name: "job", holder: "one", config, clock, random: seeded(1) });
    const first = await holder.claim(null);
    if (first.result !== "held") throw new Error(`not held: ${first.result}`);
    await place.clock.advance(1500);
    const second = await holder.claim(first.lease);
    if (second.result !== "held") throw new Error(`not held: ${second.result}`);
    await place.clock.advance(400);
    await holder.release(second.lease);
    expect(place.server.of("claim").map(({ settings }) => cap(settings))).toEqual([5, 13.4]);
    expect(place.server.of("tombstone").map(({ settings }) => cap(settings))).toEqual([14.5]);
    for (const { settings } of place.server.arrivals) {
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
    const one = place.keeper({ lease });
    await one.acquire();
    await one.stop();
    for (const { settings } of [...place.server.of("claim"), ...place.server.of("tombstone")]) {
      expect(settings["insert_quorum"]).toBe(insertQuorum);
      expect(settings["insert_quorum_parallel"]).toBe(insertQuorum === undefined ? undefined : "0");
      if (insertQuorum === undefined) expect(settings).not.toHaveProperty("insert_quorum_timeout");
      else expect(Number(settings["insert_quorum_timeout"])).toBe(Math.min(1000, Math.round(cap(settings) * 1000)));
    }
    for (const { settings } of [...place.server.of("head"), ...place.server.of("term")])
      expect(settings["select_sequential_consistency"]).toBe(sequential);
  });

  it("LS-07 an INSERT that leaves on its third attempt is capped by the time left then", async () => {
    // The server stops listening after the head read; the claim finds it again at its third attempt.
    const one = place.keeper({ client: refusingAfterHead(place.server) });
    using sockets = new ClientSockets(place.server.url);
    const acquiring = one.acquire({ waitMs: 0 });
    await place.twiceRefused(sockets, 0, () => place.server.listen());
    await acquiring;
    // The claim bound of 1 s runs from when the INSERT was handed over, after the head read.
    const [claim] = place.server.of("claim");
    expect(claim!.at - place.server.of("head")[0]!.at).toBe(300);
    expect(cap(claim!.settings)).toBe(0.7);
    expect(one.status().state).toBe("held");
  });

  it("LS-11 an INSERT that was refused at connect on every attempt wrote nothing: no quarantine, and the next claim is a tick later", async () => {
    const one = place.keeper({ client: refusingAfterHead(place.server), reacquire: "keep-trying" });
    using sockets = new ClientSockets(place.server.url);
    const trying = one.tryAcquire();
    await place.twiceRefused(sockets);
    expect(await trying).toBe(false);
    expect(one.status()).toMatchObject({ state: "reacquiring" });
    expect(place.server.rows).toEqual([]);
    await place.server.listen();
    await place.clock.advance(499);
    expect(place.server.of("head")).toHaveLength(1);
    await place.clock.advance(1);
    await until("the lease is held", () => one.status().state === "held");
    expect(place.server.of("head").at(-1)!.at).toBe(1000 + 300 + 500);
  });

  it.each([
    [408, 159],
    [500, 473],
    [500, 319],
  ])(
    "LS-14 a server limit on a lease INSERT (HTTP %i, code %i) is a timeout of unknown outcome and is sent once",
    async (status, code) => {
      place.server.script = ({ operation }) => (operation === "claim" ? { error: { status, code } } : undefined);
      const first = place.keeper({ holder: "first" });
      expect(await failureOf(first.acquire({ waitMs: 0 }))).toMatchObject({
        code: "LEASE_QUARANTINED",
        timedOut: true,
        outcome: "unknown",
      });
      expect(place.server.of("claim")).toHaveLength(1);
      expect(first.status()).toMatchObject({ state: "quarantined", leaseTimeouts: 1 });
      place.server.script = () => undefined;
      const second = place.keeper({ holder: "second", name: "other" });
      await second.acquire();
      place.server.script = ({ operation }) => (operation === "claim" ? { error: { status, code } } : undefined);
      await place.clock.advance(1000);
      await until("the renewal has ended", () => second.status().state === "quarantined");
      expect(place.server.of("claim")).toHaveLength(3);
      expect(second.status().leaseTimeouts).toBe(1);
    },
  );

  it("an earlier quorum insert that is unfinished (286) wrote nothing, and the claim goes again inside its bound", async () => {
    let times = 0;
    place.server.script = ({ operation }) =>
      operation === "claim" && (times += 1) === 1 ? { error: { status: 500, code: 286 } } : undefined;
    const one = place.keeper();
    const acquiring = one.acquire({ waitMs: 0 });
    await until("the claim pauses", () => place.clock.dueIn(100));
    await place.clock.advance(100);
    await acquiring;
    expect(place.server.of("claim")).toHaveLength(2);
    expect(one.status().state).toBe("held");
  });
});

/** A client without kept-alive sockets, whose server stops listening before the head read is answered. */
function refusingAfterHead(at: ScriptedClickHouse): ClickHouseClient {
  let headSeen = false;
  at.script = ({ operation }) => {
    if (operation !== "head" || headSeen) return undefined;
    headSeen = true;
    // The connection of the head read ends by itself; the INSERT, which comes after its answer, is refused.
    at.notListening();
    return undefined;
  };
  return quietClient(at.url, { keepAlive: false });
}
