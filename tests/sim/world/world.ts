import { Checkers } from "../checkers/checkers.js";
import type { Coverage } from "../checkers/coverage.js";
import type { Incarnation, Violation } from "../checkers/records.js";
import { Catalog } from "./catalog.js";
import { EventQueue } from "./event-queue.js";
import { Holder } from "./holder.js";
import { EventLog } from "./log.js";
import { Machine } from "./machine.js";
import type { Events, Mix } from "./mix.js";
import { Network, type Cut } from "./network.js";
import { Port } from "./port.js";
import { between, chance, pick, prng, type Random } from "./prng.js";

export interface RunResult<M = Mix> {
  readonly seed: number;
  readonly mix: M;
  readonly violations: readonly Violation[];
  readonly coverage: Coverage;
  readonly hash: string;
  readonly events: number;
  readonly turns: number;
  readonly virtualMs: number;
  readonly lines: readonly string[];
}

export interface WorldOptions {
  readonly keepLog?: boolean;
  /** How much longer than told an admitted statement runs: 1, or more in a world that breaks its promise (the canary). */
  readonly lingers?: number;
  /** Only this checker is asked; the others say nothing and end nothing. */
  readonly only?: string;
}

/** After the faults have ended a holder must exist within so many TTLs. */
const convergenceTtls = 5;

/** Once the faults have ended the catalog and the machines are quick too. */
const quick = { latencyMs: [1, 3], readMs: [1, 3], insertMs: [1, 5] } as const;

/** One run: some machines, the server, the network between them, and what befalls them. All from one seed. */
export class World {
  readonly queue = new EventQueue();
  readonly log: EventLog;
  readonly catalog: Catalog;
  readonly network: Network<Catalog>;
  readonly all: Checkers;
  readonly incarnations: Incarnation[] = [];
  readonly lingers: number;
  readonly only: string | null;
  #converged = false;
  #next = 0;
  readonly #holders = new Map<Incarnation, Holder>();
  readonly #random: Random;

  constructor(
    readonly seed: number,
    readonly mix: Mix,
    o: WorldOptions = {},
  ) {
    this.log = new EventLog(o.keepLog ?? false);
    this.lingers = o.lingers ?? 1;
    this.only = o.only ?? null;
    this.#random = prng(seed, 2);
    this.catalog = new Catalog(this.queue, mix, prng(seed, 3));
    this.network = new Network(this.queue, this.catalog, mix, prng(seed, 4), this.log);
    this.network.faults = mix.faults;
    this.network.healsAt = mix.safetyMs;
    this.all = new Checkers(this);
  }

  /** Runs it to its end, synchronously: call it from a macrotask. */
  run(): RunResult {
    const { mix, queue, all } = this;
    for (let place = 0; place < mix.holders; place++) {
      queue.at(mix.together ? 0 : this.#random() * mix.ttlMs, () => this.#boot(place));
    }
    this.#schedule();
    queue.at(mix.safetyMs, () => this.#heal());
    this.#runToHolder();
    return {
      seed: this.seed,
      mix,
      violations: all.violations,
      coverage: all.coverage,
      hash: this.log.hash,
      events: this.log.events,
      turns: this.incarnations.reduce((sum, { machine }) => sum + machine.turns, 0),
      virtualMs: queue.now,
      lines: this.log.lines,
    };
  }

  #runToHolder(): void {
    const { mix, queue, all } = this;
    queue.runUntil(mix.safetyMs);
    const before = all.coverage.contestedTerms;
    queue.runUntil(mix.safetyMs + (convergenceTtls + 0.01) * mix.ttlMs);
    if (this.#converged || all.violations.length > 0) return;
    const contests = all.coverage.contestedTerms - before;
    all.fail(
      "Progress",
      `nothing was granted or renewed within ${convergenceTtls} TTLs after the faults had ended; ${contests} contested terms since`,
    );
  }

  /** A lease was granted or renewed after the faults had ended: a little later the run is over. */
  converged(): void {
    if (this.#converged) return;
    this.#converged = true;
    this.queue.after(this.mix.ttlMs / 4, () => this.queue.halt());
  }

  #boot(place: number): void {
    const { mix, queue, seed } = this;
    const id = this.#next++;
    const own = prng(seed, 100 + id);
    const longTurn = (): number => between(own, 0.1, 1.5) * mix.ttlMs;
    const machine = new Machine({
      id,
      queue,
      rate: mix.rateError === 0 ? 1 : 1 + between(own, -mix.rateError, mix.rateError),
      offsetMs: mix.profile === "symmetric" ? 0 : Math.floor(own() * 1e6),
      turnMs: () => {
        if (!this.all.healed && chance(own, mix.longTurn)) return longTurn();
        return mix.turnMs === 0 ? 0 : own() * own() * (this.all.healed ? Math.min(5, mix.turnMs) : mix.turnMs);
      },
      turnPassesAt: () => Math.floor(own() * 4),
    });
    const by: Incarnation = {
      id,
      holder: `h${place}#${id}`,
      machine,
      reacquire: mix.reacquire[place % mix.reacquire.length]!,
      state: "none",
      heldSince: Infinity,
      heldLongest: 0,
      acquiring: false,
      quarantinedUntil: -Infinity,
      quarantinedTrue: -Infinity,
      rowsExpireAt: -Infinity,
      foreignSince: null,
      pausedUntil: -Infinity,
      lastHead: null,
      rereads: null,
      rereading: null,
      renewing: null,
      pastDeadline: false,
      seekRefusedSince: null,
      refusedAt: -Infinity,
      openClaim: null,
      unknownInTurn: -1,
      held: null,
      confirmedInTurn: -1,
      confirmedEnd: Infinity,
      leaseTimeouts: 0,
      ownIds: new Set(),
      releaseBegan: Infinity,
      fencedInFlight: 0,
    };
    const looks = prng(seed, 20_000 + id);
    const holder = new Holder(
      by,
      new Port(by, this.network, this.all),
      this.all,
      prng(seed, 10_000 + id),
      looks,
      () => {
        machine.kill();
        queue.after(this.all.healed ? mix.ttlMs / 2 : between(this.#random, 0.2, 2) * mix.ttlMs, () =>
          this.#boot(place),
        );
      },
    );
    this.incarnations.push(by);
    this.#holders.set(by, holder);
    machine.watch = {
      turnBegins: () => {
        if (chance(looks, mix.looks)) holder.look();
      },
      iterationEnds: (_machine, began) => {
        this.all.holding.iterationEnds(by, began);
        this.all.keeper.refusalDigested(by);
      },
    };
    this.log.add(queue.now, id, "boot", place);
    holder.start();
  }

  #heal(): void {
    const { network, catalog } = this;
    this.all.healed = true;
    network.faults = null;
    network.cuts.clear();
    if (this.mix.profile === "swarm") network.pace = quick;
    catalog.stalledUntil = 0;
    this.log.add(this.queue.now, -1, "faults end");
  }

  #schedule(): void {
    const { events } = this.mix;
    const kinds: Record<keyof Events, () => void> = {
      stall: () => this.#stall(),
      suspend: () => this.#suspend(),
      crash: () => this.#crash(),
      partition: () => this.#cut(),
      serverStall: () => this.#stallServer(),
      clockStep: () => this.catalog.stepClock(),
      parting: () => this.#part(),
    };
    for (const [kind, act] of Object.entries(kinds)) {
      const rate = events[kind as keyof Events];
      if (rate === 0) continue;
      const next = (): void => {
        const gap = (-Math.log(1 - this.#random()) * 10 * this.mix.ttlMs) / rate;
        this.queue.after(gap, () => {
          if (this.all.healed) return;
          act();
          next();
        });
      };
      next();
    }
  }

  /** Some living process; one that holds more often than not. */
  #victim(): Incarnation | null {
    const living = this.incarnations.filter(({ machine }) => !machine.dead);
    const holding = living.filter(({ state }) => state === "held");
    if (holding.length > 0 && chance(this.#random, 0.6)) return pick(this.#random, holding);
    return living.length === 0 ? null : pick(this.#random, living);
  }

  #lasts(most: number): number {
    // It ends with the part that has faults.
    return Math.min(this.#random() * most * this.mix.ttlMs, Math.max(0, this.mix.safetyMs - this.queue.now));
  }

  #stall(): void {
    const by = this.#victim();
    if (by === null) return;
    const ms = this.#lasts(2);
    const { held } = by;
    const ends = by.machine.localAt(this.queue.now + ms);
    if (held !== null && !held.ended && ends > held.deadline) this.all.coverage.stallsPastDeadline += 1;
    this.log.add(this.queue.now, by.machine.id, "stall", ms);
    by.machine.stall(ms);
  }

  #suspend(): void {
    const by = this.#victim();
    if (by === null) return;
    const ms = this.#lasts(2.5);
    if (by.fencedInFlight > 0) this.all.coverage.suspendsWithFencedInFlight += 1;
    this.log.add(this.queue.now, by.machine.id, "suspend", ms);
    if (this.mix.clocks === "beyond-holder" && chance(this.#random, 0.5)) {
      by.machine.pauseUnseen(ms, chance(this.#random, 0.5));
    } else by.machine.suspend(ms);
  }

  #crash(): void {
    const by = this.#victim();
    if (by === null) return;
    this.all.coverage.crashes += 1;
    this.log.add(this.queue.now, by.machine.id, "crash");
    by.machine.kill();
    const place = Number(by.holder.slice(1, by.holder.indexOf("#")));
    this.queue.after(this.#lasts(2), () => this.#boot(place));
  }

  #cut(): void {
    const by = this.#victim();
    if (by === null) return;
    const kind = pick<Cut>(this.#random, ["refuses", "loses", "holds"]);
    const ms = this.#lasts(2);
    this.log.add(this.queue.now, by.machine.id, `cut: ${kind}`, ms);
    this.network.cuts.set(by.machine.id, { kind, until: this.queue.now + ms });
  }

  #stallServer(): void {
    const ms = this.#lasts(1);
    this.log.add(this.queue.now, -1, "server stalls", ms);
    this.catalog.stalledUntil = this.queue.now + ms;
  }

  #part(): void {
    const by = this.#victim();
    if (by === null) return;
    this.log.add(this.queue.now, by.machine.id, "wall clock steps");
    by.machine.part();
  }
}
