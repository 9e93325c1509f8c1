// How soon a rival that waits in acquire() holds the lease: from the call of stop(), and from the SIGKILL of a holder in
// another process.
import { fork, type ChildProcess } from "node:child_process";
import { fileURLToPath } from "node:url";
import { ClickHouseLogLevel, createClient, type ClickHouseClient } from "@clickhouse/client";
import { acquireLease, type LeaseKeeper } from "@holdfast/lease-core";
import type { Order } from "./holder.js";

export const pollMs = 100;
export const ttlMs = 3_000;
const publishTimeoutMs = 1_000;

const clientOf = (url: string): ClickHouseClient => createClient({ url, log: { level: ClickHouseLogLevel.OFF } });
const keeperOf = (client: ClickHouseClient, name: string, holder: string): Promise<LeaseKeeper> =>
  acquireLease({
    client,
    name,
    holder,
    ttlMs,
    lease: { publishTimeoutMs, acquirePollMs: pollMs },
    waitMs: 60_000,
  });

/** A rival that waits already: it has looked at least once when this resolves. */
async function waiting(client: ClickHouseClient, name: string): Promise<{ readonly held: Promise<number> }> {
  const rival = keeperOf(client, name, "rival");
  const held = rival.then(async (keeper) => {
    const at = performance.now();
    await keeper.stop();
    return at;
  });
  held.catch(() => undefined);
  await pause(2 * pollMs);
  return { held };
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Milliseconds from stop() to the rival's grant. The moment of the stop goes through the whole of a poll. */
export async function afterStop(url: string, runs: number): Promise<number[]> {
  const [ours, theirs] = [clientOf(url), clientOf(url)];
  const took: number[] = [];
  try {
    for (let run = 0; run < runs; run++) {
      const name = `stopped-${run}`;
      const holder = await keeperOf(ours, name, "stopped");
      const { held } = await waiting(theirs, name);
      await pause((run / runs) * pollMs);
      const from = performance.now();
      await holder.stop();
      took.push((await held) - from);
    }
  } finally {
    await Promise.all([ours.close(), theirs.close()]);
  }
  return took;
}

const message = (child: ChildProcess): Promise<unknown> =>
  new Promise((resolve, reject) => {
    const died = (code: number | null): void => reject(new Error(`a holder ended with ${String(code)}`));
    child.once("exit", died);
    child.once("message", (value) => {
      child.off("exit", died);
      resolve(value);
    });
  });

/** Milliseconds from SIGKILL to the rival's grant. The moment of the kill goes from just after a renewal to when the next is due. */
export async function afterKill(url: string, runs: number): Promise<number[]> {
  const client = clientOf(url);
  const took: number[] = [];
  try {
    for (let run = 0; run < runs; run++) {
      const order: Order = { url, name: `killed-${run}`, ttlMs, publishTimeoutMs };
      const child = fork(fileURLToPath(new URL("holder.ts", import.meta.url)), { execArgv: process.execArgv });
      try {
        await message(child);
        const taken = message(child);
        child.send(order);
        await taken;
        const { held } = await waiting(client, order.name);
        await message(child);
        await pause((run / runs) * (ttlMs / 3));
        const from = performance.now();
        child.kill("SIGKILL");
        took.push((await held) - from);
      } finally {
        child.kill("SIGKILL");
      }
    }
  } finally {
    await client.close();
  }
  return took;
}
