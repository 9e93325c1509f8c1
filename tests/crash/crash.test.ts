// Goal: SIGKILL at any moment loses and doubles no acknowledged record, over restarts and takeovers. Method: the campaign of
// `npm run crash`, which kills publishers and capture-only services at every named moment and at random; what is there in the
// end is read from the catalog and from the store by another process.
import { expect, it } from "vitest";
import { runCampaign } from "./campaign.js";
import { boundaries } from "./support/boundaries.js";

/** Each moment, and one at random. */
const round = boundaries.length + 1;

async function killed(rounds: number): Promise<void> {
  const result = await runCampaign({ kills: rounds * round, seed: 20 });
  expect(result).toMatchObject({ lost: [], duplicated: [], alien: [], missed: [] });
  for (const boundary of boundaries) expect([boundary, result.boundaries[boundary]]).toEqual([boundary, rounds]);
  expect(result.boundaries["random"]).toBe(rounds);
  // In every other round 18 of the moments count from the sixth group of ten on.
  expect(result.acknowledged).toBeGreaterThanOrEqual(Math.ceil(rounds / 2) * 18 * 50);
}

// Dozens of lives one after another: beside 20 busy loops they take longer than what hangs elsewhere.
const timeout = 3_600_000;

it("CS-27 killed services lose and double nothing that was acknowledged, twice at each moment", { timeout }, () =>
  killed(2),
);

it("CS-27 the same, six times at each moment", { timeout, tags: ["slow"] }, () => killed(6));
