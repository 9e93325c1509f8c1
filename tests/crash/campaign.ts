import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Lateness } from "@holdfast-private/tests-machine";
import { startEmbeddedClickHouse, type EmbeddedClickHouse } from "@holdfast/clickhouse-embedded";
import { boundaries as named, isCatalogBoundary, isStartBoundary, type Planned } from "./support/boundaries.js";
import type { Lane } from "./support/lane.js";
import { Lanes, throwFirst } from "./support/lanes.js";
import { Scripts } from "./support/scripts.js";

export type CrashResult = {
  readonly kills: number;
  /** Records whose receipt resolved in a process that was killed later. */
  readonly acknowledged: number;
  /** Acknowledged and not visible. */
  readonly lost: readonly string[];
  /** Records that are visible, or in the store, more than once, and packs that were published more than once. */
  readonly duplicated: readonly string[];
  /** Visible and never appended, or in the catalog and not in the store. */
  readonly alien: readonly string[];
  /** Kills at each boundary; `elsewhere`: its victim did not come to it. */
  readonly boundaries: Readonly<Record<string, number>>;
  /** Kills that were planned at a boundary and did not happen there. */
  readonly missed: readonly string[];
  readonly seconds: number;
};

/** A TTL on a quiet machine. Each successor of a killed publisher waits for one. */
const ttlMs = 2_000;
const longestTtlMs = 12_000;

/** What each lane's service is. Those without a lease are killed more often in the same time. */
const roles = ["publisher", "publisher", "publisher", "publisher", "capture-only"] as const;
/** How long a life of each takes against the others. */
const cost = { publisher: 2, "capture-only": 1 } as const;

type Campaign = {
  readonly kills: number;
  readonly seed: number;
  /** Leaves the directory of spools, stores and the engine for a person to look at. */
  readonly keep?: boolean;
  readonly onKill?: (boundary: string, kills: number) => void;
};

/**
 * Kills capture services with SIGKILL, at named moments and at random ones, lets their successors go on, and compares in the
 * end what was acknowledged with what another process finds in the catalog and in the store. Publishers' catalogs and one
 * that a capture-only service fills are killed side by side.
 */
export async function runCampaign(o: Campaign): Promise<CrashResult> {
  await using scripts = await Scripts.build("victim", "examine");
  const directory = await mkdtemp(join(tmpdir(), "holdfast-crash-"));
  const lanes = new Lanes();
  const errors: unknown[] = [];
  const note = (error: unknown): void => void errors.push(error);
  let engine: EmbeddedClickHouse | null = null;
  let result: CrashResult | null = null;
  try {
    engine = await startEmbeddedClickHouse({ dataDir: join(directory, "clickhouse") });
    result = await campaign(o, lanes, { scripts, directory, engine });
  } catch (error) {
    note(error);
  }
  // In this order, so that nothing is removed which a process still writes to. What fails here does not hide what failed before.
  await lanes.close().catch(note);
  await engine?.stop().catch(note);
  if (o.keep !== true) await rm(directory, { recursive: true, force: true, maxRetries: 3 }).catch(note);
  throwFirst(errors);
  if (result === null) throw new Error("a campaign without errors has a result");
  return result;
}

async function campaign(
  o: Campaign,
  lanes: Lanes,
  { engine, ...parts }: { scripts: Scripts; directory: string; engine: EmbeddedClickHouse },
): Promise<CrashResult> {
  const startedAt = performance.now();
  const plan = planOf(o.kills, prng(o.seed));
  const common = { ...parts, catalogUrl: engine.url, ttlMs: await ttlOfThisMachine(engine) };
  const namesOf = (i: number) => ({ schemaName: `crash_${i}`, random: prng(o.seed + 1 + i) });
  const killed = roles.map((role, i) => lanes.add({ ...common, ...namesOf(i), role }));
  let done = 0;
  const onKill = (boundary: string): void => o.onKill?.(boundary, (done += 1));
  const missed = await lanes.together(
    killed.map(async (lane, i) => {
      const notReached = await killAll(lane, plan[i] ?? [], onKill);
      // What a capture-only service uploaded becomes visible through a publisher.
      if (roles[i] === "capture-only") await lanes.add({ ...common, ...namesOf(i), role: "publisher" }).heal();
      return notReached;
    }),
  );
  return { ...(await compare(lanes, killed)), missed: missed.flat(), seconds: secondsSince(startedAt) };
}

async function ttlOfThisMachine(engine: { readonly url: string }): Promise<number> {
  await using lateness = await Lateness.start(engine);
  return Math.min(longestTtlMs, Math.round(ttlMs * (await lateness.pace())));
}

/** Kills at each planned moment, as often as planned; returns those that did not come about. */
async function killAll(lane: Lane, plan: readonly Planned[], onKill: (boundary: string) => void): Promise<string[]> {
  // The catalog is there before anybody is killed: an installer that is killed leaves its schema lease to expire.
  await lane.live();
  const left = [...plan];
  // What is not reached is tried again, so that each moment is hit as often as planned.
  let spare = 4 + left.length;
  while (left.length > 0 && spare > 0) {
    // Those of a start wait for a predecessor that left what they need, and then come first.
    const { findsOpenFile } = lane;
    const fitting = left.findIndex(({ boundary }) => isStartBoundary(boundary) === findsOpenFile);
    const [planned] = left.splice(Math.max(0, fitting), 1);
    if (planned === undefined) break;
    if (!(await lane.kill(planned))) {
      left.push(planned);
      spare -= 1;
    }
    onKill(planned.boundary);
  }
  await lane.heal();
  return left.map(({ boundary }) => boundary);
}

/**
 * Each moment in turn, so that each is hit as often as the others, one of them at random; in one round after some groups of records, in
 * the next one from the first on. Dealt to the lanes.
 */
function planOf(kills: number, random: () => number): Planned[][] {
  const lanes = roles.map((role) => ({ role, cost: 0, plan: [] as Planned[] }));
  for (let i = 0; i < kills; i += 1) {
    const boundary = named[i % (named.length + 1)] ?? "random";
    const isFirst = Math.floor(i / (named.length + 1)) % 2 === 1 || isStartBoundary(boundary);
    const afterGroups = isFirst ? 0 : 5 + Math.floor(random() * 15);
    const fitting = lanes.filter(({ role }) => role === "publisher" || !isCatalogBoundary(boundary));
    const lane = fitting.reduce((a, b) => (b.cost < a.cost ? b : a));
    lane.plan.push({ boundary, afterGroups });
    lane.cost += cost[lane.role];
  }
  return lanes.map(({ plan }) => shuffled(plan, random));
}

function shuffled<T>(items: readonly T[], random: () => number): T[] {
  return items
    .map((item) => ({ item, at: random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

async function compare(lanes: Lanes, killed: readonly Lane[]): Promise<Omit<CrashResult, "missed" | "seconds">> {
  const lost: string[] = [];
  const duplicated: string[] = [];
  const alien: string[] = [];
  const boundaries: Record<string, number> = {};
  let [kills, acknowledged] = [0, 0];
  const found = await lanes.together(killed.map((lane) => lane.examine()));
  for (const [i, { visible, stored, published }] of found.entries()) {
    const lane = killed[i];
    if (lane === undefined) continue;
    for (const id of lane.acknowledged) if (visible[id] === undefined || stored[id] === undefined) lost.push(id);
    for (const counts of [visible, stored, published])
      for (const [id, count] of Object.entries(counts)) if (count > 1) duplicated.push(id);
    for (const counts of [visible, stored]) {
      for (const id of Object.keys(counts)) {
        if (!lane.appended.has(id) || stored[id] === undefined) alien.push(id);
      }
    }
    for (const [boundary, count] of lane.hits) boundaries[boundary] = (boundaries[boundary] ?? 0) + count;
    kills += lane.kills;
    acknowledged += lane.acknowledged.size;
  }
  return { kills, acknowledged, lost, duplicated, alien, boundaries };
}

const secondsSince = (ms: number): number => Math.round((performance.now() - ms) / 100) / 10;

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
