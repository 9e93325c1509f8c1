import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Counts the requests that this process makes while `work` runs, by method. */
export async function counting<T>(counts: Map<string, number>, work: () => Promise<T>): Promise<T> {
  const count = (message: unknown) => {
    const { method } = (message as { request: { method: string } }).request;
    counts.set(method, (counts.get(method) ?? 0) + 1);
  };
  subscribe("http.client.request.start", count);
  try {
    return await work();
  } finally {
    unsubscribe("http.client.request.start", count);
  }
}

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

/** Memory of the process in MiB, without what only waits for the collector. */
export function restingMemory(): number {
  collectGarbage();
  return process.memoryUsage.rss() / 2 ** 20;
}

/** The memory of the process after so many GiB were uploaded. */
export interface MemoryPoint {
  readonly gib: number;
  readonly mib: number;
}

/** MiB that memory grows by per GiB uploaded: the slope of the least-squares line. */
export function slope(points: readonly MemoryPoint[]): number {
  const mean = (of: (p: MemoryPoint) => number) => points.reduce((sum, p) => sum + of(p), 0) / points.length;
  const [x, y] = [mean((p) => p.gib), mean((p) => p.mib)];
  const above = points.reduce((sum, p) => sum + (p.gib - x) * (p.mib - y), 0);
  return above / points.reduce((sum, p) => sum + (p.gib - x) ** 2, 0);
}

export const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;
