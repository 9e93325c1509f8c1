// Goal: the suite passes on stores that keep the contract and says so in a list that people can read; known deviations do not outlive
// their reasons. Method: the memory store, and the suite's own client over it; a runner made by hand.
import { readFile, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { memoryStore } from "@holdfast/object-store";
import {
  conformanceCases,
  lyingStores,
  objectStoreConformance,
  runConformanceCase,
  type Place,
} from "@holdfast/testkit/conformance";
import { describe, expect, it } from "vitest";
import { faultyWire } from "../../src/conformance/reference/faulty-wire.js";
import { referenceStore } from "../../src/conformance/reference/store.js";
import { serve } from "../../src/conformance/reference/wire.js";

const dispose = () => Promise.resolve();

describe("memoryStore", () => {
  objectStoreConformance({ describe, it }, () => Promise.resolve({ store: memoryStore(), dispose }));
});

describe("the suite's own client", () => {
  objectStoreConformance({ describe, it }, () => {
    const real = memoryStore();
    const { wire, faults } = faultyWire(serve(real));
    return Promise.resolve({ store: referenceStore(wire, real), faults, dispose });
  });
});

describe("the end of a case", () => {
  // Red without the wait for `underWay` in suite.ts: on a slow store OS-308 then left its put to the next case, OS-310 found the key taken.
  it("waits for what the case has given up, before the place is disposed of", async () => {
    const real = memoryStore();
    const seen: string[] = [];
    const slow: Place["store"] = {
      ...real,
      put: async (...args) => {
        for (let turn = 0; turn < 20; turn += 1) await new Promise(setImmediate);
        const result = await real.put(...args);
        seen.push(`put ${result.outcome}`);
        return result;
      },
    };
    const place: Place = { store: slow, dispose: () => Promise.resolve(void seen.push("disposed")) };
    await runConformanceCase("OS-308", () => Promise.resolve(place));
    expect(seen).toEqual(["put created", "disposed"]);
  });
});

describe("the suite's patience", () => {
  // Red with one timer of `patienceMs` in system-clock.ts: it was over when the process went on.
  it("is not used up while the machine holds the whole process up", async () => {
    const real = memoryStore();
    const heldUp: Place["store"] = {
      ...real,
      put: async (...args) => {
        const result = await real.put(...args);
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300);
        for (let turn = 0; turn < 5; turn += 1) await new Promise(setImmediate);
        return result;
      },
    };
    await runConformanceCase("OS-282", () => Promise.resolve({ store: heldUp, dispose }), { patienceMs: 100 });
  });
});

describe("known deviations", () => {
  const open = (): Promise<Place> => Promise.resolve({ store: memoryStore(), dispose });
  /** The tests that the suite declares, by title. */
  const declared = (knownDeviations: Record<`OS-${number}`, string>, place = open) => {
    const tests = new Map<string, () => Promise<void>>();
    const runner = {
      describe: (_: string, body: () => void) => body(),
      it: (name: string, body: () => Promise<void>) => void tests.set(name, body),
    };
    objectStoreConformance(runner, place, { knownDeviations });
    return tests;
  };
  const liar = lyingStores.find(({ breaks }) => breaks === "OS-170")!;

  it("a case that is known to fail and fails is no failure, and its title says why", async () => {
    const tests = declared({ "OS-170": "our gateway counts from 1" }, liar.open);
    const test = tests.get("OS-170 startAfter is exclusive (known deviation: our gateway counts from 1)");
    await expect(test!()).resolves.toBeUndefined();
  });

  it("a case that is known to fail and passes is a failure that names its reason", async () => {
    const tests = declared({ "OS-170": "our gateway counts from 1" });
    const test = tests.get("OS-170 startAfter is exclusive (known deviation: our gateway counts from 1)");
    await expect(test!()).rejects.toThrow(/OS-170 passes now: .*our gateway counts from 1/);
  });

  it("an id that does not exist, and a deviation without a reason, are refused at once", () => {
    expect(() => declared({ "OS-999": "why not" })).toThrow(/OS-999, and there is no such case/);
    expect(() => declared({ "OS-170": " " })).toThrow(/no reason for OS-170/);
  });
});

describe("the list of cases", () => {
  it("has 150 cases and more, 40 of them and more under faults, and 20 lying stores and more", () => {
    expect(conformanceCases.length).toBeGreaterThanOrEqual(150);
    expect(conformanceCases.filter(({ underFaults }) => underFaults).length).toBeGreaterThanOrEqual(40);
    expect(new Set(lyingStores.map(({ says }) => says)).size).toBeGreaterThanOrEqual(20);
  });

  it("stands in docs/conformance-cases.md as it is in the code (HOLDFAST_UPDATE_DOCS=1 writes it)", async () => {
    const path = fileURLToPath(new URL("../../../../docs/conformance-cases.md", import.meta.url));
    const says = new Map(lyingStores.map((liar) => [liar.breaks, liar.says]));
    const text = (value: string) => value.replaceAll("|", "\\|").replaceAll("<", "&lt;");
    const lines = [...new Set(conformanceCases.map(({ group }) => group))].flatMap((group) => [
      `## ${group[0]!.toUpperCase()}${group.slice(1)}`,
      "",
      ...conformanceCases
        .filter((one) => one.group === group)
        .map(({ id, clause }) => `- **${id}** ${text(clause)}. _Broken by:_ ${text(says.get(id) ?? "")}.`),
      "",
    ]);
    const head =
      "# Cases of the object-store conformance suite\n\nOne line per case: its id, the clause of the contract, and what the lying store does that ships with the suite to break it.\nIds never change their meaning. How to run the suite on your store: [backends.md](backends.md).\n\n";
    const wanted = `${head}${lines.join("\n")}`;
    if (process.env["HOLDFAST_UPDATE_DOCS"] === "1") await writeFile(path, wanted);
    const words = (markdown: string) =>
      markdown
        .replaceAll(/[\\*_]/g, "")
        .split(/\s+/)
        .filter(Boolean);
    expect(words(await readFile(path, "utf8"))).toEqual(words(wanted));
  });
});
