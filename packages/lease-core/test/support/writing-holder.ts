/**
 * A holder in a process of its own that writes fenced rows through a proxy, and stops itself (SIGSTOP) in a turn in which it holds its lease:
 * right after a statement, or, with `long`, in the middle of one, when it is told that half of it has gone. It claims and writes again until
 * it came to that. Argument: `Orders` as JSON. Messages: { stopping: lease id } as it stops; { half } is its own cue for that, answered
 * { over } when it held no more; after it was resumed, `Resumed`.
 */
import { bind } from "@holdfast/deadline-http/clickhouse";
import { createLeaseKeeper, type Held } from "../../src/index.js";
import { connect, type Connection } from "./connection.js";
import { watchTurns, type Turn } from "./turns.js";

export interface Orders {
  readonly connection: Connection;
  /** Of the writes alone. */
  readonly writesUrl: string;
  readonly name: string;
  readonly ttlMs: number;
  readonly long: boolean;
  /** Of the long statement. */
  readonly bodyBytes: number;
}

/** What it did and saw once it was resumed. */
export interface Resumed {
  /** Code of each statement's end, or "written": that of the one that was stopped in its middle, if there was one, then three more. */
  readonly ends: readonly string[];
  readonly check: string;
  readonly state: string;
  readonly reason: string | null;
  readonly turns: readonly Turn[];
}

const { connection, writesUrl, name, ttlMs, long, bodyBytes } = JSON.parse(process.argv[2] ?? "") as Orders;
const lease = { ttlMs, publishTimeoutMs: Math.round(ttlMs / 3) };
const keeper = createLeaseKeeper({ client: connect(connection), name, holder: "writer", lease });
const catalog = bind(connect({ ...connection, url: writesUrl }));
const reader = connect(connection);

/** Resolves with what it came to. */
function write(by: string, padBytes = 0): Promise<string> {
  const padding = padBytes === 0 ? "" : `/* ${"x".repeat(padBytes)} */`;
  const writing = keeper.exclusive(async (stretch) => {
    const { predicate, params, settings } = stretch.fence();
    await catalog.command({
      query: `INSERT INTO written SELECT {by:String}, {lease:String} ${padding} WHERE ${predicate}`,
      query_params: { ...params, by, lease: stretch.leaseId },
      clickhouse_settings: { ...settings, max_query_size: "20000000" },
    });
    return "written";
  });
  return writing.catch((error: unknown) => (error as { code: string }).code);
}

async function rowsOf(leaseId: string): Promise<number> {
  const query = "SELECT count() AS n FROM written WHERE lease = {leaseId:String}";
  const answer = await reader.query({ query, query_params: { leaseId }, format: "JSONEachRow" });
  return Number((await answer.json<{ n: string }>())[0]!.n);
}

let half = (): void => undefined;
process.on("message", (message: { half?: true }) => {
  if (message.half === true) half();
});

/** Stops the process in this very turn, unless the lease is lost; true when it was resumed. */
function stop(held: Held): boolean {
  if (held.check() !== "held") return false;
  process.send?.({ stopping: held.leaseId });
  process.kill(process.pid, "SIGSTOP");
  return true;
}

/** Null when the lease was lost before it was stopped. */
async function attempt(held: Held): Promise<Resumed | null> {
  const { turns, after } = watchTurns(held.signal);
  // Such statements are well-formed, and add their row while the lease is held.
  if ((await write("short")) !== "written" || (await write("padded", 100_000)) !== "written") return null;
  if ((await rowsOf(held.leaseId)) !== 2) return null;
  const ends: string[] = [];
  if (long) {
    const stopped = new Promise<boolean>((resolve) => (half = () => resolve(stop(held))));
    const writing = write("long", bodyBytes);
    if (!(await stopped)) {
      await writing;
      process.send?.({ over: held.leaseId });
      return null;
    }
    ends.push(await writing);
  } else if (!stop(held)) return null;
  // The first of them in the very turn in which it was resumed, unless it was in the middle of one.
  for (let n = 0; n < 3; n++) ends.push(await write("late"));
  const [check, { state }] = [held.check(), keeper.status()];
  await after(Date.now());
  const reason = (held.signal.reason as { reason?: string } | undefined)?.reason ?? null;
  return { ends, check, state, reason, turns };
}

let resumed: Resumed | null = null;
while (resumed === null) {
  await keeper.acquire({ waitMs: 600_000 });
  resumed = await keeper.whileHeld(attempt).catch(() => null);
}
process.send?.(resumed);
process.on("disconnect", () => process.exit());
