import { SchemaLease } from "@holdfast/lease-core";
import { emptyCoverage } from "../checkers/coverage.js";
import type { Violation } from "../checkers/records.js";
import { SchemaAppliers, type SchemaApplier } from "../checkers/schema-appliers.js";
import { EventQueue } from "./event-queue.js";
import { EventLog } from "./log.js";
import { Machine } from "./machine.js";
import { Network } from "./network.js";
import { between, chance, pick, prng, type Random } from "./prng.js";
import { schemaClient } from "./schema-client.js";
import { schemaMixOf, type SchemaMix } from "./schema-mix.js";
import { SchemaTable } from "./schema-table.js";
import type { RunResult } from "./world.js";

export interface SchemaWorldOptions {
  readonly keepLog?: boolean;
  readonly only?: string;
  /** Replicas lag by so many times what the mix says: 1, or more in a world that breaks the condition of the lease (the canary). */
  readonly lags?: number;
}

/** Once the faults have ended the table is quick, so that a claim is answered within half a settle. */
const quick = { latencyMs: [1, 3], readMs: [1, 3], insertMs: [1, 5] } as const;

const codeOf = (error: unknown): string | undefined => (error as { code?: string }).code;

/** Appliers that race for one schema lease on replicas that lag, from one seed. The lease is the product's own. */
export class SchemaWorld {
  readonly queue = new EventQueue();
  readonly log: EventLog;
  readonly mix: SchemaMix;
  readonly #coverage = emptyCoverage();
  readonly #violations: Violation[] = [];
  readonly #network: Network<SchemaTable>;
  readonly #all: SchemaAppliers;
  readonly #random: Random;
  #healed = false;
  #heldSinceHealed = false;
  #next = 0;

  constructor(
    readonly seed: number,
    readonly o: SchemaWorldOptions = {},
  ) {
    this.log = new EventLog(o.keepLog ?? false);
    this.mix = schemaMixOf(seed);
    const { mix, queue } = this;
    this.#random = prng(seed, 30_001);
    const table = new SchemaTable(queue, mix.replicas, mix.lagMs * (o.lags ?? 1), prng(seed, 30_002));
    this.#network = new Network(queue, table, { ...mix, ttlMs: mix.leaseMs }, prng(seed, 30_003), this.log);
    this.#network.faults = mix.faults;
    this.#network.healsAt = mix.safetyMs;
    this.#all = new SchemaAppliers(mix, table, this.#coverage, (checker, text) => this.#fail(checker, text));
  }

  /** Runs it to its end, synchronously: call it from a macrotask. */
  run(): RunResult<SchemaMix> {
    const { mix, queue } = this;
    const together = chance(this.#random, 0.5);
    for (let place = 0; place < mix.appliers; place++) {
      queue.at(together ? 0 : this.#random() * mix.leaseMs, () => this.#boot());
    }
    this.#often(mix.stalls, () => this.#stall());
    this.#often(mix.crashes, () => this.#crash());
    queue.at(mix.safetyMs, () => {
      this.#healed = true;
      this.#network.faults = null;
      this.#network.pace = quick;
    });
    queue.runUntil(mix.safetyMs);
    // A claim that its applier has given up stands for a lease, then somebody looks, claims and settles.
    queue.runUntil(mix.safetyMs + 2 * (mix.leaseMs + mix.requestMs + mix.settleMs + mix.pollMs));
    if (!this.#heldSinceHealed && this.#violations.length === 0) {
      this.#fail("SchemaProgress", "nobody has got the lease since the faults ended");
    }
    const { appliers } = this.#all;
    return {
      seed: this.seed,
      mix,
      violations: this.#violations,
      coverage: this.#coverage,
      hash: this.log.hash,
      events: this.log.events,
      turns: appliers.reduce((sum, { machine }) => sum + machine.turns, 0),
      virtualMs: queue.now,
      lines: this.log.lines,
    };
  }

  #fail(checker: string, text: string): void {
    if (this.o.only !== undefined && this.o.only !== checker) return;
    this.log.add(this.queue.now, -1, "VIOLATION", checker, text);
    this.#violations.push({ checker, trueMs: this.queue.now, text });
    this.queue.halt();
  }

  #often(rate: number, act: () => void): void {
    if (rate === 0) return;
    this.queue.after((-Math.log(1 - this.#random()) * this.mix.leaseMs) / rate, () => {
      if (this.#healed) return;
      act();
      this.#often(rate, act);
    });
  }

  #boot(): void {
    const { mix, queue, seed } = this;
    const id = this.#next++;
    const own = prng(seed, 30_100 + id);
    const machine = new Machine({
      id,
      queue,
      rate: 1 + between(own, -mix.rateError, mix.rateError),
      offsetMs: Math.floor(own() * 1e6),
      wallAheadMs: between(own, -mix.wallSkewMs / 2, mix.wallSkewMs / 2),
      turnMs: () => (mix.turnMs === 0 ? 0 : own() * own() * mix.turnMs),
      turnPassesAt: () => Math.floor(own() * 4),
    });
    const by: SchemaApplier = { id, holder: `a${id}`, machine, claim: null, until: -Infinity };
    this.#all.appliers.push(by);
    const lease = this.#lease(by);
    this.log.add(queue.now, id, "boot");
    machine.reply(() => {
      this.#program(by, lease, own).catch((error: unknown) => {
        if (!machine.dead) this.#fail("NoUnexpectedError", String(error));
      });
    });
  }

  #lease(by: SchemaApplier): SchemaLease {
    const { leaseMs, settleMs, pollMs, requestMs, strictReadback } = this.mix;
    return new SchemaLease({
      client: schemaClient(by, this.#network, requestMs, {
        sent: (row) => this.#all.sent(by, row),
        landed: (row, before) => this.#all.landed(by, row, before),
      }),
      name: "schema",
      holder: by.holder,
      leaseMs,
      settleMs,
      pollMs,
      requestTimeoutMs: requestMs,
      strictReadback,
      clock: by.machine,
    });
  }

  /** Takes the lease, works under it, and gives it back, perhaps too late; treats an error as an applier must: nothing is held. */
  async #program(by: SchemaApplier, lease: SchemaLease, random: Random): Promise<void> {
    const { mix, queue, log } = this;
    for (;;) {
      try {
        const waitMs = chance(random, 0.5) ? 0 : Math.floor(random() * mix.leaseMs);
        const got = await lease.acquire({ waitMs });
        log.add(by.machine.trueNow(), by.id, got ? "holds" : "refused");
        if (got) await this.#work(by, lease, random);
        else this.#coverage.schemaRefused += 1;
      } catch (error) {
        if (codeOf(error) !== "SCHEMA_LEASE") throw error;
        log.add(queue.now, by.id, "failed");
      }
      await by.machine.sleep(random() * mix.leaseMs * 0.3);
    }
  }

  async #work(by: SchemaApplier, lease: SchemaLease, random: Random): Promise<void> {
    const { mix } = this;
    this.#all.held(by);
    if (this.#healed) {
      this.#heldSinceHealed = true;
      this.queue.halt();
    }
    await by.machine.sleep(random() * mix.workLeases * mix.leaseMs);
    this.#all.givesBack(by);
    await lease.release();
  }

  #victim(): SchemaApplier | null {
    const living = this.#all.appliers.filter(({ machine }) => !machine.dead);
    return living.length === 0 ? null : pick(this.#random, living);
  }

  #stall(): void {
    const by = this.#victim();
    if (by === null) return;
    const ms = this.#random() * 1.5 * this.mix.leaseMs;
    this.log.add(this.queue.now, by.id, "stall", ms);
    if (chance(this.#random, 0.3)) by.machine.suspend(ms);
    else by.machine.stall(ms);
  }

  #crash(): void {
    const by = this.#victim();
    if (by === null) return;
    this.log.add(this.queue.now, by.id, "crash");
    by.machine.kill();
    this.queue.after(this.#random() * this.mix.leaseMs, () => this.#boot());
  }
}
