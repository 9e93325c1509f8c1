// The process that calls: so many calls of some clients, at most 64 at once, each timed against its bound.
import { monitorEventLoopDelay } from "node:perf_hooks";
import { boundMs, cases, cutMs, tagOf, type Case, type Places } from "./cases.js";
import { callFor, type Call, type Who } from "./clients.js";

export interface Order {
  readonly who: Who;
  readonly count: number;
  /** The number of the first call. */
  readonly from: number;
  readonly places: Places;
}

/** What became of one call. */
export interface Ended {
  readonly number: number;
  readonly case: Case;
  /** Null: it was cut at ten times the bound. */
  readonly tookMs: number | null;
  readonly outcome: "answered" | "not-sent" | "refused" | "unknown" | "untold";
  /** By how much this process's own loop stood still between the deadline and the return. */
  readonly heldUpMs: number;
}

export interface Result {
  readonly ended: readonly Ended[];
  /** The whole run, by Node's own histogram. */
  readonly loop: {
    readonly p50Ms: number;
    readonly p999Ms: number;
    readonly maxMs: number;
    readonly cpuMsPerCall: number;
  };
}

const lanes = 64;
/**
 * Calls begin so far apart. A call costs milliseconds of processor time, most of it in the SDKs: begun as fast as lanes
 * are free, they would measure how full the loop is. About 15 are then on their way at a time, more where they hang.
 */
const startEveryMs = 15;
const sampleMs = 2;

/** Samples the loop: when a sample comes late, the loop had stood still since the one before. */
class LoopWatch {
  readonly #held: { readonly from: number; readonly to: number }[] = [];
  #last = performance.now();
  readonly #timer = setInterval(() => {
    const now = performance.now();
    if (now - this.#last > 2 * sampleMs) this.#held.push({ from: this.#last + sampleMs, to: now });
    this.#last = now;
  }, sampleMs);

  /** How long it stood still within a stretch of time, the present moment included. */
  heldUpMs(from: number, to: number): number {
    let sum = Math.max(0, to - Math.max(from, this.#last + sampleMs));
    for (let at = this.#held.length - 1; at >= 0; at--) {
      const one = this.#held[at];
      if (!one || one.to < from) break;
      sum += Math.max(0, Math.min(to, one.to) - Math.max(from, one.from));
    }
    return sum;
  }

  stop(): void {
    clearInterval(this.#timer);
  }
}

/** The clients' first calls load code and open pools: they are made before the clock runs. */
async function readied(order: Order): Promise<Map<Case, Call>> {
  // Loads Node's fetch.
  await fetch(`http://127.0.0.1:${order.places.refused}`).catch(() => undefined);
  const calls = new Map(cases.map((one) => [one, callFor(order.who, one.client, one.fault, order.places)]));
  let next = 0;
  const lane = async (): Promise<void> => {
    for (let one = cases[next++]; one; one = cases[next++]) {
      await limited(calls.get(one)?.(tagOf(0, one)) ?? Promise.resolve(), 2 * boundMs);
    }
  };
  await Promise.all(Array.from({ length: 16 }, lane));
  return calls;
}

const timer = (ms: number): { readonly over: Promise<null>; cancel(): void } => {
  let handle: NodeJS.Timeout | undefined;
  const over = new Promise<null>((resolve) => (handle = setTimeout(resolve, ms, null)));
  return { over, cancel: () => clearTimeout(handle) };
};

type Settled = { readonly outcome: Ended["outcome"] };

/** How a call ends, or null when it has not after so long. */
async function limited(call: Promise<unknown>, ms: number): Promise<Settled | null> {
  const cut = timer(ms);
  const settled = call.then(
    (): Settled => ({ outcome: "answered" }),
    (error: unknown): Settled => ({ outcome: outcomeOf(error) }),
  );
  const first = await Promise.race([settled, cut.over]);
  cut.cancel();
  return first;
}

function outcomeOf(error: unknown): Ended["outcome"] {
  const outcome: unknown = typeof error === "object" && error !== null && Reflect.get(error, "outcome");
  return outcome === "not-sent" || outcome === "refused" || outcome === "unknown" ? outcome : "untold";
}

async function run(order: Order): Promise<Result> {
  const calls = await readied(order);
  const watch = new LoopWatch();
  const histogram = monitorEventLoopDelay({ resolution: 1 });
  histogram.enable();
  const ended: Ended[] = [];
  let next = 0;
  const one = async (): Promise<void> => {
    const at = next++;
    // A step that has no divisor in common with the number of cases: neighbours meet different clients and faults.
    const chosen = cases[(at * 37) % cases.length];
    const call = chosen && calls.get(chosen);
    if (!call) throw new Error("every case has its call");
    const number = order.from + at;
    const startedAt = performance.now();
    const end = await limited(call(tagOf(number, chosen)), cutMs);
    const now = performance.now();
    ended.push({
      number,
      case: chosen,
      tookMs: end === null ? null : now - startedAt,
      outcome: end?.outcome ?? "untold",
      heldUpMs: watch.heldUpMs(startedAt + boundMs, now),
    });
  };
  let startAt = performance.now();
  const lane = async (): Promise<void> => {
    while (next < order.count) {
      startAt = Math.max(performance.now(), startAt + startEveryMs);
      await timer(startAt - performance.now()).over;
      if (next < order.count) await one();
    }
  };
  const cpuFrom = process.cpuUsage();
  await Promise.all(Array.from({ length: lanes }, lane));
  histogram.disable();
  watch.stop();
  const { user, system } = process.cpuUsage(cpuFrom);
  const ms = (nanoseconds: number): number => nanoseconds / 1e6;
  const loop = {
    p50Ms: ms(histogram.percentile(50)),
    p999Ms: ms(histogram.percentile(99.9)),
    maxMs: ms(histogram.max),
    cpuMsPerCall: (user + system) / 1_000 / order.count,
  };
  return { ended, loop };
}

// The loader of this benchmark turns them on, and then errors, of which there are many here, are looked up in files.
process.setSourceMapsEnabled(false);
// A client that gave up may fail once more, with nobody there to hear it.
process.on("unhandledRejection", () => undefined);
process.on("disconnect", () => process.exit());
process.on("message", (order) => {
  run(order as Order).then(
    (result) => process.send?.(result),
    (error: unknown) => {
      console.error(error);
      process.exit(1);
    },
  );
});
process.send?.("ready");
