import { until } from "@holdfast-private/tests-machine";
import { expect } from "vitest";
import { createLeaseKeeper } from "../../src/index.js";
import { Child } from "./child.js";
import type { Engine } from "./engine.js";
import { leaseRows, liveAt, type LeaseRow } from "./lease-rows.js";
import type { Look, Orders, Watched } from "./watched-holder.js";

export interface Seen {
  readonly watched: Watched;
  readonly rows: readonly LeaseRow[];
  readonly leaseId: string;
  readonly rival: { readonly leaseId: string; readonly looks: readonly Look[] };
  readonly clockSkewMs: number;
}

type Watching = Pick<Orders, "name" | "clockSkewMs" | "statement"> & { readonly url?: string };
/** Gives what undoes it. */
type Fault = (holder: Child) => Promise<() => Promise<void> | void>;

/**
 * Runs a holder whose statements go to `url`, lets a rival look for its lease, and begins what `fault` does. Once the rival is seen to hold
 * it undoes it with what `fault` gave, and everybody hands over what they saw. The holder's TTL is three seconds on a quiet machine: on any
 * it shall hold until the fault; all else is judged by rows and instants alone. Load may begin after the TTL was chosen: with a fault that
 * came too late nothing has been watched, and all begins again, under another name and with twice the TTL.
 */
export async function watch(engine: Engine, o: Watching, fault: Fault): Promise<Seen> {
  for (let ttlMs = Math.round(3000 * (await engine.pace())); ; ttlMs *= 2) {
    const seen = await watchOnce(engine, { ...o, name: `${o.name}, ${ttlMs} ms`, ttlMs }, fault);
    if (seen !== null) return seen;
  }
}

/** Null: the holder's lease may have ended before the fault was there. */
async function watchOnce(engine: Engine, o: Watching & { readonly ttlMs: number }, fault: Fault): Promise<Seen | null> {
  const { url = engine.connection.url, name, ttlMs, clockSkewMs } = o;
  const orders: Orders = { ...o, connection: { ...engine.connection, url } };
  await using holder = new Child("watched-holder.ts", orders);
  // So long that it need not renew.
  const lease = { ttlMs: 600_000, clockSkewMs, acquirePollMs: 100 };
  await using rival = createLeaseKeeper({ client: engine.client(), name, holder: "rival", lease });
  const looks: Look[] = [];
  const looking = setInterval(() => {
    const at = Date.now();
    const { state, leaseId = null, term } = rival.status();
    looks.push([at, state, leaseId, term === undefined ? null : Number(term)]);
  }, 5);
  try {
    const { held: leaseId } = await holder.said<{ held: string }>("held");
    const undo = await fault(holder);
    const faultAt = Date.now();
    // Its first row was sent at most a third of the TTL before its stamp, and the deadline is the TTL after that, less skew and margin.
    const first = (await leaseRows(engine, name)).find((row) => row.leaseId === leaseId)!;
    if (faultAt > first.acquired + ttlMs / 2) {
      await undo();
      return null;
    }
    await rival.acquire({ waitMs: 600_000 });
    await until("the rival is seen to hold", () => looks.at(-1)?.[1] === "held");
    await undo();
    holder.tell({ stop: true });
    const watched = await holder.said<Watched>("looks");
    const rows = await leaseRows(engine, name);
    return { watched, rows, leaseId, rival: { leaseId: rival.status().leaseId ?? "", looks }, clockSkewMs };
  } finally {
    clearInterval(looking);
  }
}

/** Every "held" was said while the row by which it is held stood alone at the head, and none `lessMs` before its end or later. */
function judgeLooks(looks: readonly Look[], rows: readonly LeaseRow[], of: string, lessMs: number): void {
  const held = looks.filter(([, state]) => state === "held");
  expect(held.length).toBeGreaterThan(0);
  const wrong = held.filter(([at, , leaseId, term]) => {
    const row = rows.find((one) => one.leaseId === leaseId && one.term === term);
    return leaseId !== of || row === undefined || at >= row.expires - lessMs || liveAt(rows, at) !== of;
  });
  expect(wrong).toEqual([]);
}

/**
 * At every look, whatever the machine does: who says "held" holds by the rows, the holder never from the end of its row less the skew on; so
 * no two say it at one instant. And once the event loop has been round after that end, the loss has been told.
 */
export function judge({ watched, rows, leaseId, rival, clockSkewMs }: Seen): void {
  const own = rows.filter((row) => row.leaseId === leaseId);
  judgeLooks(watched.looks, rows, leaseId, clockSkewMs);
  judgeLooks(rival.looks, rows, rival.leaseId, clockSkewMs);
  const first = rows.find((row) => row.leaseId === rival.leaseId)!;
  expect(first.acquired).toBeGreaterThanOrEqual(own.at(-1)!.expires);

  const last = own.find(({ term }) => term === watched.lastTerm)!;
  const over = last.expires - clockSkewMs;
  expect(watched.turns.filter(([at, told]) => at >= over && !told)).toEqual([]);
  // That end was seen from both sides.
  expect(watched.looks.some(([at]) => at < over)).toBe(true);
  for (const seen of [watched.looks, watched.turns]) expect(seen.some(([at]) => at >= over)).toBe(true);
}
