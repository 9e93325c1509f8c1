import type { Mix } from "../world/mix.js";
import type { World } from "../world/world.js";
import { Claims } from "./claims.js";
import { emptyCoverage } from "./coverage.js";
import { FencedStatements } from "./fenced-statements.js";
import { Holding } from "./holding.js";
import { KeeperStates } from "./keeper.js";
import type { Incarnation, LeaseSeen, Violation } from "./records.js";

/** Everything that is checked in one run: outside the code under test, on true time, from what the table and the loops see. */
export class Checkers {
  readonly violations: Violation[] = [];
  readonly coverage = emptyCoverage();
  readonly mix: Mix;
  /** Clocks within the bound: all rules hold. Beyond it, the fence alone is promised. */
  readonly strict: boolean;
  readonly tickMs: number;
  readonly holdMs: number;
  healed = false;
  readonly fenced = new FencedStatements(this);
  readonly claims = new Claims(this);
  readonly holding = new Holding(this);
  readonly keeper = new KeeperStates(this);
  readonly #leases = new Map<string, LeaseSeen>();
  readonly #contested = new Set<bigint>();

  constructor(readonly world: World) {
    const { mix } = world;
    this.mix = mix;
    this.strict = mix.clocks === "within";
    this.tickMs = Math.max(mix.ttlMs / 6, 10);
    this.holdMs = mix.ttlMs - mix.clockSkewMs - 100;
  }

  fail(checker: string, text: string, by?: Incarnation): void {
    const { queue, log, only } = this.world;
    if (only !== null && only !== checker) return;
    const who = by === undefined ? "" : `${by.holder}: `;
    log.add(queue.now, by?.machine.id ?? -1, "VIOLATION", checker, text);
    this.violations.push({ checker, trueMs: queue.now, text: who + text });
    queue.halt();
  }

  lease(id: string, by: Incarnation): LeaseSeen {
    let lease = this.#leases.get(id);
    if (lease === undefined) {
      lease = {
        number: this.#leases.size + 1,
        id,
        by,
        confirmed: null,
        firstLandedTrue: -1,
        deadline: -Infinity,
        toldHeldTrue: -1,
        ended: false,
        endedInTurn: -1,
        releasedTrue: null,
        awaitsSignal: false,
      };
      this.#leases.set(id, lease);
    }
    return lease;
  }

  known(id: string): LeaseSeen {
    const lease = this.#leases.get(id);
    if (lease === undefined) throw new Error(`no claim was ever sent under lease id ${id}`);
    return lease;
  }

  /** True the first time for each term. */
  contested(term: bigint): boolean {
    if (this.#contested.has(term)) return false;
    this.#contested.add(term);
    return true;
  }

  someoneElseHolds(by: Incarnation): boolean {
    return this.world.incarnations.some((one) => {
      const { held, machine } = one;
      if (one === by || held === null || held.ended || machine.dead) return false;
      return machine.localAt(this.world.queue.now) < held.deadline;
    });
  }
}
