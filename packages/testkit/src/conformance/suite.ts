import assert from "node:assert/strict";
import { caseGroups } from "./cases/index.js";
import { faultyWire } from "./reference/faulty-wire.js";
import { referenceStore } from "./reference/store.js";
import { serve } from "./reference/wire.js";
import { ok } from "./support.js";
import { systemTimer } from "./system-clock.js";
import type { Case, CaseId, CasePlace, Place, Runner } from "./types.js";

/** What {@link objectStoreConformance} takes. */
export type ConformanceOptions = {
  /**
   * The cases that this store is known to fail, each with the reason. Such a case must fail: it fails the run once it passes, so that
   * a deviation does not outlive its reason.
   */
  readonly knownDeviations?: Readonly<Record<CaseId, string>>;
  /** How long a call that must end may take to end, in ms counted only while the process is running; default 10,000. */
  readonly patienceMs?: number;
};

/** What a case is, without its code: for lists and reports. */
export type CaseInfo = {
  readonly id: CaseId;
  readonly clause: string;
  readonly group: string;
  /** Whether something is broken on the way. */
  readonly underFaults: boolean;
};

const groups = Object.entries(caseGroups);

/** Every case of the suite, in the order in which they run. */
export const conformanceCases: readonly CaseInfo[] = groups.flatMap(([group, cases]) =>
  cases.map(({ id, clause, faults }) => ({ id, clause, group, underFaults: faults !== undefined })),
);

const caseById = new Map(groups.flatMap(([, cases]) => cases.map((one) => [one.id, one] as const)));
if (caseById.size !== conformanceCases.length) throw new Error("two cases have one id");

/**
 * Declares every case of the contract with your runner (`{ describe, it }` of vitest, node:test, mocha, jest). `open` is called once
 * per case, one case after the other as far as the runner runs them so, and must give a place with nothing in it: a fresh directory, a
 * fresh bucket, or one that `dispose` empties. Never a bucket that holds anything else.
 *
 * Throws at once when `knownDeviations` names a case that does not exist or has no reason.
 */
export function objectStoreConformance(t: Runner, open: () => Promise<Place>, o: ConformanceOptions = {}): void {
  const known = new Map(Object.entries(o.knownDeviations ?? {}));
  for (const [id, reason] of known) {
    if (!caseById.has(id as CaseId)) throw new Error(`knownDeviations names ${id}, and there is no such case`);
    if (reason.trim() === "") throw new Error(`knownDeviations has no reason for ${id}`);
  }
  for (const [group, cases] of groups) {
    t.describe(group, () => {
      for (const one of cases) {
        const reason = known.get(one.id);
        if (reason === undefined) t.it(`${one.id} ${one.clause}`, () => run(one, open, o));
        else t.it(`${one.id} ${one.clause} (known deviation: ${reason})`, () => runDeviating(one, open, o, reason));
      }
    });
  }
}

/** Runs one case on a fresh place; rejects when the store fails it, with what was seen. */
export async function runConformanceCase(
  id: CaseId,
  open: () => Promise<Place>,
  o: ConformanceOptions = {},
): Promise<void> {
  const one = caseById.get(id);
  if (one === undefined) throw new Error(`there is no case ${id}`);
  await run(one, open, o);
}

async function runDeviating(
  one: Case,
  open: () => Promise<Place>,
  o: ConformanceOptions,
  reason: string,
): Promise<void> {
  const passes = await run(one, open, o).then(
    () => true,
    () => false,
  );
  ok(!passes, `${one.id} passes now: take it out of knownDeviations (the reason was: ${reason})`);
}

async function run(one: Case, open: () => Promise<Place>, o: ConformanceOptions): Promise<void> {
  const { patienceMs = 10_000 } = o;
  const place = await open();
  const underWay = new Set<Promise<unknown>>();
  try {
    await one.run(casePlace(one, place, patienceMs, underWay));
  } finally {
    // What the suite's own client was told to give up is still with the store, and would land in the place of the next case.
    const timer = systemTimer(patienceMs);
    await Promise.race([Promise.allSettled(underWay), timer.over]);
    timer.cancel();
    await place.dispose();
  }
}

function casePlace(one: Case, place: Place, patienceMs: number, underWay: Set<Promise<unknown>>): CasePlace {
  const { store, other = store, faults } = place;
  const ends = endsWithin(patienceMs);
  const kinds = one.faults ?? [];
  if (kinds.length === 0) {
    return { store, other, raw: store, ends, inject: () => assert.fail(`${one.id} does not say what it breaks`) };
  }
  if (faults !== undefined && kinds.every((kind) => faults.kinds.has(kind))) {
    return { store, other, raw: other, ends, inject: (fault) => faults.inject(fault) };
  }
  const server = serve(store);
  const own = faultyWire((request) => {
    const answer = server(request);
    underWay.add(answer);
    return answer;
  });
  const client = referenceStore(own.wire, store);
  return { store: client, other: client, raw: store, ends, inject: (fault) => own.faults.inject(fault) };
}

function endsWithin(patienceMs: number): CasePlace["ends"] {
  return async (work) => {
    const timer = systemTimer(patienceMs);
    try {
      const over = timer.over.then(() => assert.fail(`a call has not ended within ${patienceMs} ms of its abort`));
      const [ended] = await Promise.race([Promise.allSettled([work]), over]);
      return ended;
    } finally {
      timer.cancel();
    }
  };
}
