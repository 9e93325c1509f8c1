import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startEmbeddedClickHouse } from "@holdfast/clickhouse-embedded";
import { boundaries as named, isCatalogBoundary, type Boundary } from "./support/boundaries.js";
import { Lane } from "./support/lane.js";

export type CrashResult = {
  readonly kills: number;
  /** Records whose receipt resolved in a process that was killed later. */
  readonly acknowledged: number;
  /** Acknowledged and not visible. */
  readonly lost: readonly string[];
  /** Visible, or in the store, more than once. */
  readonly duplicated: readonly string[];
  /** Visible and never appended, or in the catalog and not in the store. */
  readonly alien: readonly string[];
  /** Kills at each boundary; `elsewhere`: it was not reached in time. */
  readonly boundaries: Readonly<Record<string, number>>;
  readonly seconds: number;
};

/**
 * Kills capture services with SIGKILL, at named moments and at random ones, lets their successors go on, and compares in the
 * end what was acknowledged with what another process finds in the catalog and in the store. Two publishers' catalogs and one
 * that a capture-only service fills are killed side by side.
 */
export async function runCampaign(o: {
  readonly kills: number;
  readonly seed: number;
  /** Leaves the directory of spools, stores and the engine for a person to look at. */
  readonly keep?: boolean;
  readonly onKill?: (boundary: string, kills: number) => void;
}): Promise<CrashResult> {
  const startedAt = performance.now();
  const directory = await mkdtemp(join(tmpdir(), "holdfast-crash-"));
  const engine = await startEmbeddedClickHouse({ dataDir: join(directory, "clickhouse") });
  const random = prng(o.seed);
  const plan = planOf(o.kills, random);
  const lanes = (["publisher", "publisher", "capture-only"] as const).map((role, i) => {
    return new Lane({ directory, catalogUrl: engine.url, schemaName: `crash_${i}`, role, random });
  });
  try {
    await Promise.all(lanes.map((lane) => lane.open()));
    // The catalogs are there before anybody is killed: an installer that is killed leaves its schema lease to expire.
    await Promise.all(lanes.map((lane) => lane.live()));
    let done = 0;
    const work = async (lane: Lane, own: Boundary[]): Promise<void> => {
      // What is not reached is tried again, so that each moment is hit as often as planned; a slow machine may miss some.
      let spare = 4 + own.length;
      while (own.length > 0 && spare > 0) {
        const at = Math.max(
          0,
          own.findIndex((boundary) => lane.canReach(boundary)),
        );
        const [boundary = "random"] = own.splice(at, 1);
        if (!(await lane.kill(boundary))) {
          own.push(boundary);
          spare -= 1;
        }
        o.onKill?.(boundary, (done += 1));
      }
      await lane.heal();
    };
    await Promise.all(lanes.map((lane, i) => work(lane, plan[i] ?? [])));
    // What the capture-only service uploaded becomes visible through a publisher.
    await publish(lanes[2], { directory, catalogUrl: engine.url, random });
    return await compare(lanes, startedAt);
  } finally {
    await Promise.all(lanes.map((lane) => lane.close()));
    await engine.stop();
    if (o.keep !== true) await rm(directory, { recursive: true, force: true });
  }
}

async function publish(
  lane: Lane | undefined,
  o: { readonly directory: string; readonly catalogUrl: string; readonly random: () => number },
): Promise<void> {
  if (lane === undefined) return;
  const publisher = new Lane({ ...o, schemaName: "crash_2", role: "publisher" });
  await publisher.open();
  try {
    await publisher.heal();
  } finally {
    await publisher.close();
  }
}

/** Each moment in turn, so that each is hit as often as the others, one of them at random; dealt to the three lanes. */
function planOf(kills: number, random: () => number): Boundary[][] {
  const lanes: Boundary[][] = [[], [], []];
  const shortest = (which: readonly number[]): Boundary[] =>
    which.map((i) => lanes[i] ?? []).reduce((a, b) => (b.length < a.length ? b : a));
  for (let i = 0; i < kills; i += 1) {
    const boundary = named[i % (named.length + 1)] ?? "random";
    shortest(isCatalogBoundary(boundary) ? [0, 1] : [0, 1, 2]).push(boundary);
  }
  for (const lane of lanes) lane.sort(() => random() - 0.5);
  return lanes;
}

async function compare(lanes: readonly Lane[], startedAt: number): Promise<CrashResult> {
  const lost: string[] = [];
  const duplicated: string[] = [];
  const alien: string[] = [];
  const boundaries: Record<string, number> = {};
  let [kills, acknowledged] = [0, 0];
  for (const lane of lanes) {
    const { visible, stored } = await lane.examine();
    for (const id of lane.acknowledged) if (visible[id] === undefined || stored[id] === undefined) lost.push(id);
    for (const counts of [visible, stored]) {
      for (const [id, count] of Object.entries(counts)) {
        if (count > 1) duplicated.push(id);
        if (!lane.appended.has(id) || stored[id] === undefined) alien.push(id);
      }
    }
    for (const [boundary, count] of lane.hits) boundaries[boundary] = (boundaries[boundary] ?? 0) + count;
    kills += lane.kills;
    acknowledged += lane.acknowledged.size;
  }
  const seconds = Math.round((performance.now() - startedAt) / 100) / 10;
  return { kills, acknowledged, lost, duplicated, alien, boundaries, seconds };
}

/** Numbers in [0, 1) that a seed decides. */
function prng(seed: number): () => number {
  let state = seed >>> 0 || 1;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000;
  };
}
