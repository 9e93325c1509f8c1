// Goal: reading many payloads takes few requests and bounded memory. Method: properties over random locators.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { RecordLocator } from "@holdfast/pack-format";
import { coalesce, coalesceBytes, coalesceGapBytes, windows, type Wanted } from "../../src/ranges.js";

const plain = (payloadOffset: number, payloadBytes: number): RecordLocator => ({
  blockOffset: 0,
  blockBytes: 1 << 20,
  codec: "none",
  payloadOffset,
  payloadBytes,
  payloadCrc32: 0,
});

const wantedList = fc
  .array(fc.record({ key: fc.constantFrom("a", "b"), offset: fc.nat(200_000), bytes: fc.nat(20_000) }), {
    maxLength: 60,
  })
  .map((list) => list.map(({ key, offset, bytes }, at): Wanted => ({ at, key, locator: plain(offset, bytes) })));

describe("coalescing", () => {
  it("every payload lies in exactly one request of its object; empty ones in none", () => {
    fc.assert(
      fc.property(wantedList, (wanted) => {
        const requests = coalesce(wanted);
        const placed = requests.flatMap((request) => request.wanted.map((each) => each.at));
        const sized = wanted.filter((each) => each.locator.payloadBytes > 0).map((each) => each.at);
        expect([...placed].sort()).toEqual([...sized].sort());
        for (const request of requests) {
          for (const { key, locator } of request.wanted) {
            expect(key).toBe(request.key);
            expect(locator.payloadOffset).toBeGreaterThanOrEqual(request.offset);
            expect(locator.payloadOffset + locator.payloadBytes).toBeLessThanOrEqual(request.offset + request.length);
          }
        }
      }),
    );
  });

  it("gaps up to 4096 bytes are bridged, wider ones are not", () => {
    const at = (...offsets: number[]) =>
      offsets.map((offset, n): Wanted => ({ at: n, key: "k", locator: plain(offset, 10) }));
    expect(coalesce(at(0, 10 + coalesceGapBytes))).toHaveLength(1);
    expect(coalesce(at(0, 11 + coalesceGapBytes))).toHaveLength(2);
  });

  it("a request does not grow past 16 MiB by joining, and one larger payload is a request of its own", () => {
    const half = coalesceBytes / 2;
    const wanted = [plain(0, half), plain(half, half), plain(2 * half, 1), plain(3 * half, 2 * coalesceBytes)];
    const requests = coalesce(wanted.map((locator, at) => ({ at, key: "k", locator })));
    expect(requests.map((request) => request.length)).toEqual([coalesceBytes, 1, 2 * coalesceBytes]);
  });

  it("compressed records of one block share its request", () => {
    const block = { ...plain(5, 10), blockOffset: 64, blockBytes: 900, codec: "gzip" as const };
    const wanted = [0, 1, 2].map((at): Wanted => ({ at, key: "k", locator: { ...block, payloadOffset: at * 10 } }));
    expect(coalesce(wanted)).toMatchObject([{ offset: 64, length: 900 }]);
  });

  it("windows keep the order and stay within the limit unless one record alone is over it", () => {
    fc.assert(
      fc.property(fc.array(fc.nat(1000), { maxLength: 50 }), fc.integer({ min: 1, max: 2000 }), (sizes, limit) => {
        const records = sizes.map((size) => ({ locator: plain(0, size), pack: { key: "k" } }));
        const runs = windows(records, limit);
        expect(runs.flat()).toEqual(records);
        for (const run of runs) {
          const bytes = run.reduce((sum, record) => sum + record.locator.payloadBytes, 0);
          expect(run.length === 1 || bytes <= limit).toBe(true);
        }
      }),
    );
  });
});
