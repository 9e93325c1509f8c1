import { until } from "@holdfast-private/tests-machine";
import type { ClickHouseClient } from "@clickhouse/client";
import { afterEach, beforeEach, expect } from "vitest";
import { createLeaseKeeper, type LeaseKeeper, type LeaseKeeperOptions } from "../../src/index.js";
import type { ClientSockets } from "./client-sockets.js";
import { SteppingClock } from "./clocks.js";
import { smallRequestTimeoutMs, smallSet } from "./keepers.js";
import { quietClient, ScriptedClickHouse, type Operation } from "./scripted-clickhouse.js";

/**
 * A scripted server, and real keepers and clients on it, all by one virtual clock: time passes only when a test says so. What the machine
 * takes for requests and answers is waited for, and costs none of it. Made afresh for each test.
 */
export class ScriptedKeepers {
  clock!: SteppingClock;
  server!: ScriptedClickHouse;
  client!: ClickHouseClient;
  readonly #keepers: LeaseKeeper[] = [];

  constructor() {
    beforeEach(async () => {
      this.clock = new SteppingClock({ startMs: 1000 });
      this.server = await ScriptedClickHouse.start(this.clock);
      this.client = quietClient(this.server.url);
    });
    afterEach(async () => {
      // Whatever is stalled fails; a lease that is held is left to expire.
      this.server.script = () => undefined;
      await this.server.refuse();
      for (const one of this.#keepers.splice(0)) await this.#ended(one.stop());
      await this.client.close();
    });
  }

  keeper(o: Partial<LeaseKeeperOptions> = {}): LeaseKeeper {
    const { client, clock } = this;
    const own = { name: "job", holder: "one", lease: smallSet, requestTimeoutMs: smallRequestTimeoutMs };
    const one = createLeaseKeeper({ ...own, client, clock, ...o });
    this.#keepers.push(one);
    return one;
  }

  /** Lets time pass until the work is done, however many requests it makes. */
  async #ended(work: Promise<void>): Promise<void> {
    const state = { done: false };
    const noted = work.finally(() => (state.done = true));
    noted.catch(() => undefined);
    await until("the keeper has stopped", async () => {
      if (!state.done) await this.clock.next();
      return state.done;
    });
    await noted;
  }

  /** Waits, while no time passes, until so many requests of this kind have come. */
  async arrive(operation: Operation, count: number): Promise<void> {
    await until(`${operation} number ${count}`, () => this.server.of(operation).length >= count);
    expect(this.server.of(operation)).toHaveLength(count);
  }

  /** Whether a promise waits for time to pass, or for an answer. */
  async pending(work: Promise<unknown>): Promise<boolean> {
    const none = {};
    return (await Promise.race([work.catch(() => null), this.clock.advance(0).then(() => none)])) === none;
  }

  /**
   * A request whose attempts are refused at connect: after the first it pauses for 100 ms, after the second for 200. The third is on its way
   * then. `before`: so many connections had been refused until the request was made.
   */
  async twiceRefused(sockets: ClientSockets, before = 0, beforeThird?: () => Promise<void>): Promise<void> {
    const { clock } = this;
    await until("the first attempt pauses", () => sockets.refused === before + 1 && clock.dueIn(100));
    await clock.advance(100);
    await until("the second attempt pauses", () => sockets.refused === before + 2 && clock.dueIn(200));
    await beforeThird?.();
    await clock.advance(200);
  }
}
