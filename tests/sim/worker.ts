import { runSlice } from "./slice.js";
import type { Job } from "./workers.js";

process.once("message", (message) => {
  const { from, end, step, repeatEvery } = message as Job;
  const seeds: number[] = [];
  for (let seed = from; seed < end; seed += step) seeds.push(seed);
  void runSlice(seeds, { repeatEvery }).then((result) => {
    process.send?.(result, () => process.disconnect());
  });
});
