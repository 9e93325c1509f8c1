// What the fence costs: the same INSERT … SELECT with and without its condition, in pairs whose order alternates, so that a
// slow moment of the machine falls on both.
import type { ClickHouseClient } from "@clickhouse/client";
import { acquireLease, type Fence } from "@holdfast/lease-core";
import { figuresOf, medianInterval, type Figures, type MedianInterval } from "./figures.js";

/** As many terms as a quarter of an hour of renewals leaves behind. The lease table has to be there. */
const termsBefore = 180;

export interface FenceCost {
  readonly plain: Figures;
  readonly fenced: Figures;
  /** Fenced less plain, pair by pair. */
  readonly more: MedianInterval;
}

export async function fenceCost(client: ClickHouseClient, rows: number, pairs: number): Promise<FenceCost> {
  const name = `fence-${rows}`;
  const table = `fenced_${rows}`;
  await client.command({ query: `CREATE TABLE ${table} (n UInt64) ENGINE = MergeTree ORDER BY n` });
  await client.command({
    query: `INSERT INTO holdfast_publisher_lease SELECT {name:String}, number + 1, generateUUIDv4(), 'before', number, number FROM numbers(${termsBefore})`,
    query_params: { name },
  });
  const keeper = await acquireLease({ client, name });
  try {
    const insert = async (fence: Fence, fenced: boolean): Promise<number> => {
      const from = performance.now();
      // The same settings on both sides: what is measured is the condition.
      await client.command({
        query: `INSERT INTO ${table} SELECT number FROM numbers(${rows})${fenced ? ` WHERE ${fence.predicate}` : ""}`,
        query_params: fenced ? { ...fence.params } : {},
        clickhouse_settings: { ...fence.settings },
      });
      return performance.now() - from;
    };
    return await keeper.whileHeld(async (held) => {
      const measured: { readonly plain: number; readonly fenced: number }[] = [];
      for (let n = -10; n < pairs; n++) {
        const fencedFirst = n % 2 === 0;
        const first = await insert(held.fence(), fencedFirst);
        const second = await insert(held.fence(), !fencedFirst);
        if (n < 0) continue;
        measured.push(fencedFirst ? { plain: second, fenced: first } : { plain: first, fenced: second });
      }
      await countRows(client, table, 2 * rows * (pairs + 10));
      return {
        plain: figuresOf(measured.map(({ plain }) => plain)),
        fenced: figuresOf(measured.map(({ fenced }) => fenced)),
        more: medianInterval(measured.map(({ plain, fenced }) => fenced - plain)),
      };
    });
  } finally {
    await keeper.stop();
  }
}

/** A fence that had refused would have been quicker, and silent. */
async function countRows(client: ClickHouseClient, table: string, expected: number): Promise<void> {
  const answer = await client.query({ query: `SELECT toString(count()) AS n FROM ${table}`, format: "JSONEachRow" });
  const [row] = await answer.json<{ n: string }>();
  if (row?.n !== String(expected)) throw new Error(`${table} has ${row?.n ?? "no"} rows, not ${expected}`);
}
