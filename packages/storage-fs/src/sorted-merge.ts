/** Entries sorted at once; a run of this length sorts in a few milliseconds. */
const runLength = 2048;

/**
 * The wanted items of a source, sorted. It sorts in runs and merges them as they are consumed, so that a folder of a hundred thousand
 * names never keeps the event loop busy for long. Holds all wanted items in memory.
 */
export async function* sortedMerge<T>(
  source: AsyncIterable<T>,
  wanted: (item: T) => boolean,
  compare: (a: T, b: T) => number,
): AsyncGenerator<T, void, undefined> {
  const runs: T[][] = [];
  let run: T[] = [];
  const close = () => {
    // Reversed, so that the smallest of a run is taken off its end.
    if (run.length > 0) runs.push(run.sort((a, b) => compare(b, a)));
    run = [];
  };
  for await (const item of source) {
    if (!wanted(item)) continue;
    run.push(item);
    if (run.length === runLength) close();
  }
  close();
  for (;;) {
    let least: T[] | undefined;
    for (const candidate of runs) {
      const item = candidate.at(-1);
      const best = least?.at(-1);
      if (item !== undefined && (best === undefined || compare(item, best) < 0)) least = candidate;
    }
    const next = least?.pop();
    if (next === undefined) return;
    yield next;
  }
}
