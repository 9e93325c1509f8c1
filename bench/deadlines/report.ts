// What the calls came to: overruns, and outcomes against the byte log.
import type { Ended, Result } from "./caller.js";
import { boundMs, clientNames, faultNames, type Log } from "./cases.js";

/** What an overrun may be with a free loop. Above this a call has to be excused. */
const freeLoopMs = 25;

/** It was late by no more than that once the time is taken off that its own loop, as the samples show, stood still. */
const excused = ({ tookMs, heldUpMs }: Ended): boolean =>
  tookMs !== null && tookMs - boundMs > freeLoopMs && tookMs - boundMs - heldUpMs <= freeLoopMs;

interface Figures {
  readonly calls: number;
  /** Calls that lasted as long as the bound, and returned. */
  readonly bounded: number;
  readonly p50: number;
  readonly p999: number;
  readonly max: number;
  readonly neverReturned: number;
  readonly excused: number;
}

function figuresOf(ended: readonly Ended[]): Figures {
  const counted = ended.filter((one) => !excused(one));
  const overruns = counted
    .flatMap(({ tookMs }) => (tookMs === null || tookMs < boundMs ? [] : [tookMs - boundMs]))
    .sort((a, b) => a - b);
  const quantile = (q: number): number => overruns[Math.max(0, Math.ceil(q * overruns.length) - 1)] ?? 0;
  return {
    calls: ended.length,
    bounded: overruns.length,
    p50: quantile(0.5),
    p999: quantile(0.999),
    max: quantile(1),
    neverReturned: ended.filter(({ tookMs }) => tookMs === null).length,
    excused: ended.length - counted.length,
  };
}

interface Truth {
  readonly falseNotSent: number;
  /** Failed, and no byte arrived. */
  readonly provable: number;
  /** Of those, the ones told as unknown. */
  readonly wrongUnknown: number;
}

function truthOf(ended: readonly Ended[], arrived: ReadonlyMap<number, number>): Truth {
  const failed = ended.filter(({ outcome }) => outcome !== "answered" && outcome !== "untold");
  const unsent = failed.filter(({ number }) => !arrived.has(number));
  return {
    falseNotSent: failed.filter(({ number, outcome }) => outcome === "not-sent" && arrived.has(number)).length,
    provable: unsent.length,
    wrongUnknown: unsent.filter(({ outcome }) => outcome === "unknown").length,
  };
}

const ms = (n: number): string => n.toFixed(1);
const head = ["", "calls", "to the bound", "overrun p50", "p99.9", "max ms", "never", "excused"];
const line = (name: string, f: Figures, bare = false): string[] => [
  name,
  String(f.calls),
  String(f.bounded),
  ...(f.bounded === 0 ? ["-", "-", "-"] : [ms(f.p50), ms(f.p999), ms(f.max)]),
  String(f.neverReturned),
  bare ? "" : String(f.excused),
];

export function report(ours: Result, bare: Result, log: Log): Record<string, number> {
  const arrived = new Map(log.requests);
  const truth = truthOf(ours.ended, arrived);
  const all = figuresOf(ours.ended);
  const unexcused = (ended: readonly Ended[]): Figures => figuresOf(ended.map((one) => ({ ...one, heldUpMs: 0 })));
  const [raw, bareAll] = [unexcused(ours.ended), unexcused(bare.ended)];
  const by = (result: Result, part: (one: Ended) => boolean): Ended[] => result.ended.filter(part);
  print([
    head,
    ...clientNames.flatMap((name) => {
      const own = (one: Ended): boolean => one.case.client === name;
      return [line(`${name}, ours`, figuresOf(by(ours, own))), line(`${name}, bare`, unexcused(by(bare, own)), true)];
    }),
    line("all, ours", all),
    line("all, bare", bareAll, true),
  ]);
  console.log("  ours, by fault; outcomes: answered, not-sent, refused, unknown");
  print([
    [...head, "outcomes"],
    ...faultNames.map((name) => {
      const some = by(ours, (one) => one.case.fault === name);
      const count = (outcome: Ended["outcome"]): number => some.filter((one) => one.outcome === outcome).length;
      const outcomes = (["answered", "not-sent", "refused", "unknown"] as const).map(count).join(" ");
      return [...line(name, figuresOf(some)), outcomes];
    }),
  ]);
  const { p50Ms, p999Ms, maxMs, cpuMsPerCall } = ours.loop;
  console.log(
    `  loop of the callers, ours: p50 ${ms(p50Ms)}, p99.9 ${ms(p999Ms)}, max ${ms(maxMs)} ms; ` +
      `${ms(cpuMsPerCall)} ms of processor time per call`,
  );
  console.log(`  with the excused: p99.9 ${ms(raw.p999)}, max ${ms(raw.max)} ms`);
  console.log(`  not-sent was provable ${truth.provable} times; bytes of no call ${log.strayBytes}\n`);
  return {
    calls: all.calls,
    maxOverrunMs: round(all.max),
    p999OverrunMs: round(all.p999),
    p50OverrunMs: round(all.p50),
    neverReturned: all.neverReturned,
    excusedRatio: round(all.excused / all.calls),
    rawMaxOverrunMs: round(raw.max),
    rawP999OverrunMs: round(raw.p999),
    falseNotSent: truth.falseNotSent,
    wrongUnknownRatio: round(truth.wrongUnknown / Math.max(1, truth.provable)),
    strayBytes: log.strayBytes,
    bareCalls: bareAll.calls,
    bareNeverReturned: bareAll.neverReturned,
    bareMaxOverrunMs: round(bareAll.max),
  };
}

function print(rows: readonly (readonly string[])[]): void {
  const widths = head.map((_, c) => Math.max(...rows.map((row) => row[c]?.length ?? 0)));
  for (const row of rows) {
    const cells = row.map((text, c) => (c === 0 ? text.padEnd(widths[0] ?? 0) : text.padStart(widths[c] ?? 0)));
    console.log(`  ${cells.join("  ")}`.trimEnd());
  }
  console.log();
}

const round = (n: number): number => Number(n.toFixed(4));
