/**
 * A holder in a process of its own that looks at its status many times a second and hands over what it saw. Argument: `Orders` as JSON.
 * Messages: { held } once it holds; { block } blocks its loop until a file of that name is there, and is answered { blocking } first; on
 * { stop } it looks once more and gives `Watched`.
 */
import { existsSync } from "node:fs";
import { bind } from "@holdfast/deadline-http/clickhouse";
import { createLeaseKeeper } from "../../src/index.js";
import { connect, type Connection } from "./connection.js";
import { watchTurns, type Turn } from "./turns.js";

export interface Orders {
  readonly connection: Connection;
  readonly name: string;
  readonly ttlMs: number;
  readonly clockSkewMs: number;
  /** Run in a stretch, again and again. */
  readonly statement?: string | undefined;
}

/** Wall ms just before the status was asked for, its state, and by which row it is held. */
export type Look = readonly [at: number, state: string, leaseId: string | null, term: number | null];

export interface Watched {
  readonly looks: readonly Look[];
  readonly turns: readonly Turn[];
  /** Just before its loop was blocked, and the first act after; whether the loss had been told as that act ended. */
  readonly block: { readonly before: Look; readonly after: Look; readonly told: boolean } | null;
  /** Of the loss. */
  readonly reason: string | null;
  /** The newest term that it knew it held. */
  readonly lastTerm: number | null;
  /** Code of the error that ended its stretches. */
  readonly failed: string | null;
}

const { connection, name, ttlMs, clockSkewMs, statement } = JSON.parse(process.argv[2] ?? "") as Orders;
const client = connect(connection);
const keeper = createLeaseKeeper({
  client,
  name,
  holder: "watched",
  lease: { ttlMs, publishTimeoutMs: Math.round(ttlMs / 3), clockSkewMs },
  requestTimeoutMs: 10 * ttlMs,
});
await keeper.acquire({ waitMs: 600_000 });
const looks: Look[] = [];
let block: Watched["block"] = null;
function look(): Look {
  // Before: "held" was true at some instant from here on, so a loop that is held up between the two accuses nobody.
  const at = Date.now();
  const { state, leaseId = null, term } = keeper.status();
  const seen: Look = [at, state, leaseId, term === undefined ? null : Number(term)];
  looks.push(seen);
  return seen;
}
const looking = setInterval(look, 5);
await keeper.whileHeld(async ({ signal }) => {
  const { turns, after } = watchTurns(signal);
  process.send?.({ held: look()[2] });
  const failed = work();
  process.on("message", ({ block: file, stop }: { block?: string; stop?: true }) => {
    if (file !== undefined) process.send?.({ blocking: true }, () => blockUntil(file, signal));
    if (stop === true) void after(Date.now()).then(() => handOver(turns, failed));
  });
  await new Promise(() => undefined);
});

async function work(): Promise<string | null> {
  if (statement === undefined) return null;
  const catalog = bind(client);
  try {
    for (;;) {
      await keeper.exclusive(async () => {
        if (statement.startsWith("INSERT")) await catalog.command({ query: statement });
        else await (await catalog.query({ query: statement })).text();
      });
    }
  } catch (error) {
    return (error as { code: string }).code;
  }
}

function blockUntil(file: string, signal: AbortSignal): void {
  const before = look();
  const never = new Int32Array(new SharedArrayBuffer(4));
  while (!existsSync(file)) Atomics.wait(never, 0, 0, 5);
  const after = look();
  block = { before, after, told: signal.aborted };
}

async function handOver(turns: readonly Turn[], failed: Promise<string | null>): Promise<void> {
  clearInterval(looking);
  look();
  const { lastLoss } = keeper.status();
  const lastTerm = lastLoss === undefined ? null : Number(lastLoss.term);
  const watched: Watched = {
    looks,
    turns,
    block,
    reason: lastLoss?.reason ?? null,
    lastTerm,
    failed: await failed,
  };
  process.send?.(watched);
}
process.on("disconnect", () => process.exit());
