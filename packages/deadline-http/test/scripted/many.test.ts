// Goal: what many requests leave behind: nothing. Method: counts of handles, listeners and things alive before and after them.
import { getEventListeners } from "node:events";
import { queryObjects, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { within } from "@holdfast/deadline-http";
import { bindFetch } from "@holdfast/deadline-http/fetch";
import { until } from "@holdfast-private/tests-machine";
import { boundClient } from "../support/clickhouse.js";
import { answer, withServer } from "../support/scripted-server.js";
import { turns } from "../support/virtual-bound.js";

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;
const kinds = { promises: Promise, functions: Function, signals: AbortSignal, maps: Map, sets: Set };
type Counts = Record<keyof typeof kinds, number>;

/**
 * How many things of the kinds of which every request makes some are alive. Counted, not weighed: V8 moves half a megabyte of its own now
 * and then, of bare fetches too.
 */
async function alive(): Promise<Counts> {
  // What is left to finalizers (undici's, say) goes between turns, and then the next collection takes it.
  for (let n = 0; n < 3; n++) {
    collectGarbage();
    await turns();
  }
  return Object.fromEntries(Object.entries(kinds).map(([name, kind]) => [name, Number(queryObjects(kind))])) as Counts;
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

async function leavesNothing(all: number, of: Call): Promise<void> {
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
    // Longer than any machine takes: its timer is one of those that are counted.
    await within(
      36e5,
      async () => {
        await requests(all / 4);
        const before = { timers: timers(), listeners: getEventListeners(signal, "abort").length };
        const first = await alive();
        await requests((all / 4) * 3);
        const last = await alive();
        expect(timers()).toBeLessThanOrEqual(before.timers + 1);
        expect(getEventListeners(signal, "abort")).toHaveLength(before.listeners);
        // Were one of them kept for each request, or for every tenth, it would be more.
        const most = (all / 4) * 3 * 0.1;
        for (const [name, count] of Object.entries(last)) {
          expect(count - first[name as keyof Counts], name).toBeLessThan(most);
        }
      },
      { signal },
    );
    expect(getEventListeners(signal, "abort")).toHaveLength(0);
  });
}

const title = "DL-21 %s in one scope, one after the other, leave no timer, no listener and nothing alive";

it.each<[string, number, Call]>([
  ["600 queries", 600, query],
  ["600 fetches", 600, fetched],
])(title, async (_name, all, of) => leavesNothing(all, of));

it.each<[string, number, Call]>([
  ["10,000 queries", 10_000, query],
  ["6,000 fetches", 6_000, fetched],
])(title, { tags: ["slow"] }, async (_name, all, of) => leavesNothing(all, of));

it(
  "DL-21 1,000 scopes left in the middle of a body: sockets destroyed, timers and listeners gone",
  { tags: ["slow"] },
  async () => {
    await withServer([answer.stalled('{"a":1}\n')], async (server) => {
      const client = boundClient(server.url, {}, { max_open_connections: 1_500 });
      const before = process.getActiveResourcesInfo().length;
      const forgotten: Promise<unknown>[] = [];
      const clickhouse_settings = { wait_end_of_query: 0 } as const;
      for (let n = 0; n < 1_000; n++) {
        await within(36e5, async () => {
          const query = { query: "SELECT a FROM t", format: "JSONEachRow", clickhouse_settings } as const;
          const rows = (await client.query(query)).json();
          rows.catch(() => undefined);
          forgotten.push(rows);
        });
      }
      const ends = await Promise.allSettled(forgotten);
      for (const end of ends) expect(end).toMatchObject({ status: "rejected", reason: { code: "SCOPE_CLOSED" } });
      await until("the sockets go", () => server.connections.every((socket) => socket.destroyed));
      expect(server.connections).toHaveLength(1_000);
      await turns();
      expect(process.getActiveResourcesInfo().length).toBeLessThanOrEqual(before + 2);
      await client.close();
    });
  },
);
