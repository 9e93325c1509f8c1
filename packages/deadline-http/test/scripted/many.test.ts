// Goal: what many requests leave behind: nothing. Method: counts of handles, listeners and bytes before and after them.
import { getEventListeners } from "node:events";
import { queryObjects, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { systemClock, within } from "@holdfast/deadline-http";
import { bindFetch } from "@holdfast/deadline-http/fetch";
import { boundClient } from "../support/clickhouse.js";
import { answer, withServer } from "../support/scripted-server.js";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;
/**
 * How many things of the kinds of which every request makes some are alive, after what is left to finalizers, which run between turns
 * (undici's, say). Counted, not weighed: V8 moves half a megabyte of its own now and then, of bare fetches too.
 */
async function alive(): Promise<Record<string, number>> {
  for (let n = 0; n < 4; n++) {
    collectGarbage();
    await systemClock.sleep(20);
  }
  const kinds = { promises: Promise, functions: Function, signals: AbortSignal, maps: Map, sets: Set };
  return Object.fromEntries(Object.entries(kinds).map(([name, kind]) => [name, Number(queryObjects(kind))]));
}

type Call = (url: string) => (signal: AbortSignal) => Promise<unknown>;

const query: Call = (url) => {
  const client = boundClient(url);
  return async (abort_signal) => {
    const result = await client.query({ query: "SELECT 1", format: "JSONEachRow", abort_signal });
    return result.json();
  };
};
const fetched: Call = (url) => async (signal) => (await bindFetch()(url, { signal })).text();

it.each<[string, number, Call]>([
  ["10,000 queries", 10_000, query],
  ["6,000 fetches", 6_000, fetched],
])(
  "DL-21 %s in one scope, one after the other, leave no timer, no listener and nothing alive",
  async (_name, all, of) => {
    await withServer([answer.rows('{"a":1}\n')], async (server) => {
      const call = of(server.url);
      const { signal } = new AbortController();
      const timers = (): number => process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
      const requests = async (count: number): Promise<void> => {
        for (let n = 0; n < count; n++) {
          await call(signal);
          server.received.length = 0;
        }
      };
      await within(
        300_000,
        async () => {
          await requests(all / 4);
          const before = { timers: timers(), listeners: getEventListeners(signal, "abort").length };
          const first = await alive();
          // Counting may take longer than the server keeps an idle connection.
          await call(signal).catch(() => undefined);
          await requests((all / 4) * 3);
          const last = await alive();
          expect(timers()).toBeLessThanOrEqual(before.timers + 1);
          expect(getEventListeners(signal, "abort")).toHaveLength(before.listeners);
          // Were one of them kept for each request, or for every tenth, it would be more.
          const most = (all / 4) * 3 * 0.1;
          for (const [name, count] of Object.entries(last)) expect(count - first[name]!, name).toBeLessThan(most);
        },
        { signal },
      );
      expect(getEventListeners(signal, "abort")).toHaveLength(0);
    });
  },
  300_000,
);

it("DL-21 1,000 scopes left in the middle of a body: sockets destroyed, timers and listeners gone", async () => {
  await withServer([answer.stalled('{"a":1}\n')], async (server) => {
    const client = boundClient(server.url, {}, { max_open_connections: 1_500 });
    const before = process.getActiveResourcesInfo().length;
    const forgotten: Promise<unknown>[] = [];
    const clickhouse_settings = { wait_end_of_query: 0 } as const;
    for (let n = 0; n < 1_000; n++) {
      await within(60_000, async () => {
        const query = { query: "SELECT a FROM t", format: "JSONEachRow", clickhouse_settings } as const;
        const rows = (await client.query(query)).json();
        rows.catch(() => undefined);
        forgotten.push(rows);
      });
    }
    const ends = await Promise.allSettled(forgotten);
    for (const end of ends) expect(end).toMatchObject({ status: "rejected", reason: { code: "SCOPE_CLOSED" } });
    const gone = (): boolean => server.connections.every((socket) => socket.destroyed);
    while (!gone()) await systemClock.sleep(5);
    expect(server.connections).toHaveLength(1_000);
    expect(process.getActiveResourcesInfo().length).toBeLessThanOrEqual(before + 2);
    await client.close();
  });
});
