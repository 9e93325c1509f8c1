import { payloadRange, type RecordLocator } from "@holdfast/pack-format";

/** A record to be read, with the place of its payload in the answer. */
export type Wanted = { readonly at: number; readonly key: string; readonly locator: RecordLocator };

/** One ranged GET and the records whose bytes it brings. */
export type RangeRequest = {
  readonly key: string;
  readonly offset: number;
  readonly length: number;
  readonly wanted: readonly Wanted[];
};

/** Bytes between two ranges that are cheaper to fetch along than to leave out. */
export const coalesceGapBytes = 4096;
/** A request is not made longer than this by coalescing. */
export const coalesceBytes = 16 * 1024 * 1024;

/** The fewest requests that bring all ranges, none bridging more than the gap. Empty payloads need none. */
export function coalesce(wanted: readonly Wanted[]): readonly RangeRequest[] {
  const sized = wanted
    .map((each) => ({ each, ...payloadRange(each.locator) }))
    .filter((range) => range.length > 0)
    .sort((a, b) => (a.each.key === b.each.key ? a.offset - b.offset : a.each.key < b.each.key ? -1 : 1));
  const requests: { key: string; offset: number; length: number; wanted: Wanted[] }[] = [];
  for (const { each, offset, length } of sized) {
    const open = requests.at(-1);
    const end = open === undefined ? 0 : open.offset + open.length;
    const joined = open === undefined ? 0 : Math.max(end, offset + length) - open.offset;
    const near = open?.key === each.key && offset - end <= coalesceGapBytes;
    if (open !== undefined && near && (joined <= coalesceBytes || offset + length <= end)) {
      open.length = joined;
      open.wanted.push(each);
    } else {
      requests.push({ key: each.key, offset, length, wanted: [each] });
    }
  }
  return requests;
}

/** Cuts a list into runs whose bytes fit into the limit; a run has at least one. Blocks that records share count once. */
export function windows<T extends { readonly locator: RecordLocator; readonly pack: { readonly key: string } }>(
  records: readonly T[],
  byteLimit: number,
): readonly (readonly T[])[] {
  const runs: T[][] = [];
  let run: T[] = [];
  let bytes = 0;
  let blocks = new Set<string>();
  for (const record of records) {
    const { locator } = record;
    const block = `${String(locator.blockOffset)} ${record.pack.key}`;
    const compressed = locator.codec === "none" || blocks.has(block) ? 0 : locator.blockBytes;
    const more = locator.payloadBytes + compressed;
    if (run.length > 0 && bytes + more > byteLimit) {
      runs.push(run);
      run = [];
      bytes = 0;
      blocks = new Set();
    }
    run.push(record);
    bytes += more;
    blocks.add(block);
  }
  if (run.length > 0) runs.push(run);
  return runs;
}
