// A publisher on a stage (`Rig.stage`), and what tests let it do.
import { until } from "@holdfast-private/tests-machine";
import { nodeFiles } from "../../src/spool/files.js";
import { foreverMs, note } from "./catalog.js";
import type { Changed, Rig } from "./rig.js";

export const onePack = { maxPackRecords: 1, maxLingerMs: 60_000 };
/** The loop runs once, at the start: all other cycles are a flush's. */
export const noLoop = { publishIntervalMs: foreverMs, reconcile: { intervalMs: 0 } };
/** The longest that a loop pauses after failures. */
const longestPauseMs = 30_000;

/** One that runs and whose first cycle is over. */
export async function startPublisher(rig: Rig, changed: Changed = {}, files = nodeFiles()) {
  const stage = await rig.stage(changed, files);
  await stage.service.start();
  await until("the first cycle has run", () => stage.service.status().cycles > 0);
  return stage;
}

export type Stage = Awaited<ReturnType<typeof startPublisher>>;

export const appendAll = async (service: Stage["service"], ids: readonly string[]): Promise<void> => {
  for (const id of ids) await (await service.append(note(id))).durable();
};

/** Lets cycles run, each of which has its chance to do what it should not; the pauses between them are skipped. */
export async function moreCycles({ service, clock }: Pick<Stage, "service" | "clock">, count = 3): Promise<void> {
  for (let i = 0; i < count; i += 1) {
    const { cycles } = service.status();
    await until("the loop waits", () => clock.sleepers > 0);
    clock.skip(longestPauseMs);
    await until("another cycle", () => service.status().cycles > cycles);
  }
}
