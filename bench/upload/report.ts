import { median, slope, type MemoryPoint } from "./measure.js";

export interface Measured {
  /** Requests of our own uploads, by method. */
  readonly counts: ReadonlyMap<string, number>;
  readonly memory: readonly MemoryPoint[];
  readonly seconds: { readonly ours: readonly number[]; readonly bare: readonly number[] };
  readonly roundBytes: number;
}

/** Prints the table; returns the JSON line. */
export function report({ counts, memory, seconds, roundBytes }: Measured): Record<string, number> {
  const gib = (seconds.ours.length * roundBytes) / 2 ** 30;
  const ratios = seconds.ours.map((one, i) => (seconds.bare[i] ?? 0) / one).sort((a, b) => a - b);
  const perGiB = (...methods: string[]) => round2(methods.reduce((sum, m) => sum + (counts.get(m) ?? 0), 0) / gib);
  const result = {
    ratioToBareSdk: round2(median(ratios)),
    requestsPerGiB: perGiB("PUT", "POST"),
    putsPerGiB: perGiB("PUT"),
    postsPerGiB: perGiB("POST"),
    getsPerGiB: perGiB("GET"),
    headsPerGiB: perGiB("HEAD"),
    uploadMBps: round2(roundBytes / 1e6 / median(seconds.ours)),
    bareMBps: round2(roundBytes / 1e6 / median(seconds.bare)),
    ratioLowest: round2(ratios[0] ?? 0),
    ratioHighest: round2(ratios.at(-1) ?? 0),
    rssSlopeMiBPerGiB: round2(slope(memory)),
    rssMiB: round2(memory.at(-1)?.mib ?? 0),
  };
  const rows = [
    ["verified upload", `${result.uploadMBps.toString()} MB/s`],
    ["bare SDK loop", `${result.bareMBps.toString()} MB/s`],
    [
      "ratio, median of rounds",
      `${result.ratioToBareSdk.toString()} (${result.ratioLowest.toString()} to ${result.ratioHighest.toString()})`,
    ],
    ...[...counts.keys()].sort().map((method) => [`${method} per GiB`, perGiB(method).toString()]),
    ["memory", `${result.rssMiB.toString()} MiB, growing by ${result.rssSlopeMiBPerGiB.toString()} MiB per GiB`],
  ];
  for (const [name = "", value = ""] of rows) console.log(`  ${name.padEnd(24)}${value}`);
  console.log();
  return result;
}

const round2 = (n: number): number => Math.round(n * 100) / 100;
