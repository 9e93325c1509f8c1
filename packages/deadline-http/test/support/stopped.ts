// Run as a process of its own by stopped.test.ts, which stops it by a signal while its requests wait. Arguments: the server's
// address, the bound in ms, by how many ms its time jumps, and the file that makes it do so (held-clock.ts). Writes to its output,
// one JSON object a line: ready, then blocking (when it was told to block), then one end for each call.
import { writeSync } from "node:fs";
import { ClickHouseLogLevel, createClient } from "@clickhouse/client";
import { instantAfter, within, withDeadline } from "@holdfast/deadline-http";
import { bind } from "@holdfast/deadline-http/clickhouse";
import { bindFetch } from "@holdfast/deadline-http/fetch";
import { blockUntil, heldClock } from "./held-clock.js";

const [url = "", boundMs = "", jumpMs = "", goesOn = ""] = process.argv.slice(2);
const ms = Number(boundMs);
const clock = heldClock(goesOn, Number(jumpMs));
/** At once, whatever the event loop does. */
const tell = (what: object): void => void writeSync(1, `${JSON.stringify(what)}\n`);

const client = bind(createClient({ url, log: { level: ClickHouseLogLevel.OFF }, request_timeout: 600_000 }));
const boundFetch = bindFetch();
const command = (name: string): Promise<unknown> => client.command({ query: name });
const rows = (name: string): Promise<unknown> =>
  client.query({ query: `SELECT '${name}'`, format: "JSONEachRow" }).then((result) => result.json());
const fetched = async (name: string): Promise<unknown> =>
  (await boundFetch(url, { method: "POST", body: name })).text();

const bounded = (fn: () => Promise<unknown>): Promise<unknown> => within(ms, fn, { clock });
const leased = (fn: () => Promise<unknown>): Promise<unknown> =>
  withDeadline(instantAfter(clock.now(), ms), fn, { clock });
const calls: Record<string, (name: string) => Promise<unknown>> = {
  command: (name) => bounded(() => command(name)),
  query: (name) => bounded(() => rows(name)),
  leased: (name) => leased(() => command(name)),
  "leased query": (name) => leased(() => rows(name)),
  fetch: (name) => bounded(() => fetched(name)),
};

// Loaded and connected beforehand, so that the bound below is spent on waiting.
await Promise.all([command("first"), rows("first"), fetched("first")]);
process.stdin.once("data", () => {
  tell({ blocking: true });
  blockUntil(goesOn);
});
const running = Object.entries(calls).flatMap(([kind, call]) =>
  ["reply", "silence"].map(async (answer) => {
    const begunAt = clock.now();
    const end = await call(`${answer} ${kind}`).then(
      () => ({ answered: true }),
      (error: unknown) => {
        const { code, outcome, message } = error as { code?: string; outcome?: string; message: string };
        return { answered: false, code, outcome, message };
      },
    );
    tell({ kind, answer, tookMs: clock.now() - begunAt, ...end });
  }),
);
tell({ ready: running.length });
await Promise.all(running);
process.exit(0);
