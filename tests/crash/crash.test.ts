// Goal: SIGKILL at any moment loses and doubles no acknowledged record, over restarts and takeovers. Method: the campaign of
// `npm run crash`, which kills publishers and capture-only services at every named boundary and at random; what is there in the
// end is read from the catalog and from the store by another process.
import { expect, it } from "vitest";
import { runCampaign } from "./campaign.js";

it("killed services lose and double nothing that was acknowledged, at every boundary", async () => {
  const result = await runCampaign({ kills: 26, seed: 20 });
  expect(result).toMatchObject({ kills: 26, lost: [], duplicated: [], alien: [] });
  expect(result.acknowledged).toBeGreaterThan(26 * 100);
  // Nearly every kill came at its boundary; a slow machine may not come to each in time.
  expect(result.boundaries["elsewhere"] ?? 0).toBeLessThan(6);
});
