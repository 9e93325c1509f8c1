/**
 * Goal: every clause of the object-store contract, shown on any store. Method: each case opens a fresh, empty place, talks to it through
 * the contract only, and asserts with node:assert; the author brings the runner and the store. Ids never change their meaning.
 */
import type { ObjectStore } from "@holdfast/object-store";
import { abortCases } from "./cases-abort.js";
import { conditionCases } from "./cases-condition.js";
import { keyCases } from "./cases-key.js";
import { listCases } from "./cases-list.js";
import { putCases } from "./cases-put.js";
import { readCases } from "./cases-read.js";
import { verifiedCases } from "./cases-verified.js";

/** What the suite needs of a test runner; `{ describe, it }` of vitest, node:test, mocha or jest fits. */
export type Runner = {
  describe(name: string, body: () => void): void;
  it(name: string, body: () => Promise<void>): void;
};

/** A fresh, empty store, a second handle on the same objects (or the same one again), and the end of both. */
export type Place = { readonly store: ObjectStore; readonly other: ObjectStore; dispose(): Promise<void> };

/** One clause: a stable id, a sentence, and what shows it. */
export type Case = {
  readonly id: `OS-${number}`;
  readonly clause: string;
  run(place: { readonly store: ObjectStore; readonly other: ObjectStore }): Promise<void>;
};

/** Declares all cases with the runner. `open` is called once per case. */
export function objectStoreBehaviour(t: Runner, open: () => Promise<Place>): void {
  const groups: Readonly<Record<string, readonly Case[]>> = {
    put: putCases,
    conditions: conditionCases,
    read: readCases,
    list: listCases,
    keys: keyCases,
    abort: abortCases,
    verified: verifiedCases,
  };
  const ids = Object.values(groups).flatMap((cases) => cases.map((one) => one.id));
  if (new Set(ids).size !== ids.length) throw new Error("two cases share an id");
  for (const [group, cases] of Object.entries(groups)) {
    t.describe(group, () => {
      for (const one of cases) t.it(`${one.id} ${one.clause}`, () => runCase(one, open));
    });
  }
}

async function runCase(one: Case, open: () => Promise<Place>): Promise<void> {
  const place = await open();
  try {
    await one.run(place);
  } finally {
    await place.dispose();
  }
}
