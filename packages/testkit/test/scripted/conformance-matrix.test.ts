// Goal: no case of the suite is there for nothing: each fails on the lying store that breaks its clause, and no two fail on the same lying
// stores. Method: the matrix of cases and lying stores. Every other lying store is enough to tell 150 cases apart, and takes half the time;
// HOLDFAST_MATRIX=full computes all of it, as `npm run test:long` does.
import { memoryStore } from "@holdfast/object-store";
import {
  conformanceCases,
  lyingStores,
  runConformanceCase,
  type CaseId,
  type Place,
} from "@holdfast/testkit/conformance";
import { beforeAll, describe, expect, it, vi } from "vitest";

const full = process.env["HOLDFAST_MATRIX"] === "full";
// A thousand puts: told apart from all others by its own lying store.
const costly = new Set<CaseId>(full ? [] : ["OS-182"]);

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/**
 * Patience is counted in turns of the event loop: suite and stores are in this process and wait for nothing outside it, so what has not
 * ended after so many turns never does.
 */
async function fails(id: CaseId, open: () => Promise<Place>): Promise<boolean> {
  const patienceMs = 1000;
  const failed: boolean[] = [];
  void runConformanceCase(id, open, { patienceMs }).then(
    () => failed.push(false),
    () => failed.push(true),
  );
  const running = (): boolean => failed.length === 0;
  while (running()) {
    for (let turns = 0; turns < 200 && running(); turns++) await turn();
    vi.advanceTimersByTime(patienceMs);
  }
  return failed[0] === true;
}

describe("the matrix of cases and lying stores", () => {
  const { stackTraceLimit } = Error;
  beforeAll(() => {
    // Some ten thousand assertions fail here, and nobody reads where.
    Error.stackTraceLimit = 0;
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    return () => {
      Error.stackTraceLimit = stackTraceLimit;
      vi.useRealTimers();
    };
  });

  it("every case passes on the memory store and fails on the store that breaks its clause", async () => {
    const wrong: string[] = [];
    for (const { breaks, clause, says, open } of lyingStores) {
      const honest = () => Promise.resolve({ store: memoryStore(), dispose: () => Promise.resolve() });
      if (await fails(breaks, honest)) wrong.push(`${breaks} fails on an honest store: ${clause}`);
      if (!(await fails(breaks, open))) wrong.push(`${breaks} (${clause}) does not see that ${says}`);
    }
    expect(wrong).toEqual([]);
    expect(lyingStores.map(({ breaks }) => breaks)).toEqual(conformanceCases.map(({ id }) => id));
  });

  it("at least 150 cases fail on different sets of lying stores", { tags: ["slow"] }, async () => {
    const liars = lyingStores.filter((_, i) => full || i % 2 === 0);
    const kills = new Map<CaseId, CaseId[]>(conformanceCases.map(({ id }) => [id, []]));
    for (const { breaks, open } of liars) {
      for (const { id } of conformanceCases) {
        if (!costly.has(id) && (await fails(id, open))) kills.get(id)?.push(breaks);
      }
    }
    const sets = new Map<string, CaseId[]>();
    for (const [id, killers] of kills) {
      const set = killers.join(" ");
      if (set !== "") sets.set(set, [...(sets.get(set) ?? []), id]);
    }
    expect(sets.size).toBeGreaterThanOrEqual(150);
    // In full, every case has a set of its own.
    if (full) expect([...sets.values()].filter((ids) => ids.length > 1)).toEqual([]);
  });
});
