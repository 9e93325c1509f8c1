// Goal: a branch of git keeps the contract but where git itself cannot. Method: every case of the conformance suite on a fresh repository, with two stores on it; the known
// deviations each have a reason and must fail. The case of 1,984 puts takes minutes: `npm run conformance -- git` and `npm run test:long` have it.
import { describe, expect, it } from "vitest";
import { lyingStores, objectStoreConformance, runConformanceCase, type Place } from "@holdfast/testkit/conformance";
import { gitDeviations, gitPlace } from "../support/place.js";

const long = "OS-182";
const runner = {
  describe,
  it: (name: string, body: () => Promise<void>) =>
    it.skipIf(name.startsWith(`${long} `) && process.env["HOLDFAST_LONG"] === undefined)(
      name,
      { tags: ["slow"] },
      body,
    ),
};

describe("gitStore", { concurrent: true }, () => {
  objectStoreConformance(runner, gitPlace, { patienceMs: 300_000, knownDeviations: gitDeviations });
});

describe("the cases that are left", () => {
  it("catch every store that lies about them, with what a branch of git declares", { tags: ["slow"] }, async () => {
    const capabilities = (await gitPlaceOnce()).capabilities;
    const missed: string[] = [];
    for (const liar of lyingStores.filter(({ breaks }) => !(breaks in gitDeviations) && breaks !== long)) {
      const open = async (): Promise<Place> => liar.open();
      // What a lie keeps from ending fails after this, on any machine.
      const passes = await runConformanceCase(liar.breaks, open, { patienceMs: 500 }).then(
        () => true,
        () => false,
      );
      if (passes) missed.push(`${liar.breaks}: ${liar.says}`);
    }
    expect(missed).toEqual([]);
    expect(capabilities).toMatchObject({ create: true, ifMatch: true, metadata: true, maxKeyBytes: 255 });
  });
});

async function gitPlaceOnce() {
  const place = await gitPlace();
  await place.dispose();
  return place.store;
}
