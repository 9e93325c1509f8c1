// Goal: SIGKILL at any moment loses and doubles no acknowledged record, over restarts and takeovers. Method: the campaign of
// `npm run crash`, which kills publishers and capture-only services at every named moment and at random; what is there in the
// end is read from the catalog and from the store by another process.
import { expect, it } from "vitest";
import { runCampaign } from "./campaign.js";
import { boundaries } from "./support/boundaries.js";

it("CS-27 killed services lose and double nothing that was acknowledged, three times at each moment", async () => {
  const kills = 3 * (boundaries.length + 1);
  const result = await runCampaign({ kills, seed: 20 });
  expect(result).toMatchObject({ lost: [], duplicated: [], alien: [] });
  expect(result.kills).toBeGreaterThanOrEqual(kills);
  expect(result.acknowledged).toBeGreaterThan(100 * result.kills);
  for (const boundary of boundaries) expect([boundary, result.boundaries[boundary] ?? 0]).toEqual([boundary, 3]);
});
