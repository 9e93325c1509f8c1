/**
 * The oracle of the live tests, in a process of its own: samples what the lease table says of one lease, 100 times a second and more.
 * Arguments: URL of the server, name of the lease. Messages: { sampling } once it does; on any message it gives `Sampled` and ends.
 *
 * Every query of the engine costs some 8 ms of a processor, whatever it asks, so a hundred in a second would be a load that decides the
 * test. Hence: reads of the whole table of that name follow one another over one connection, at most one in `readEveryMs`. A sample is
 * the newest row at its instant with that row's own end against the clock, which is the server's (same machine); nothing but a row that has
 * landed since the last read escapes it, and the next read shows that one with its stamp. A sample whose read is older than `staleMs` does not count.
 */
import { Agent, request } from "node:http";
import { liveAt, type LeaseRow } from "./lease-rows.js";

export interface Sampled {
  /** [wall ms, lease id that holds by the rows known then, or null] of each sample that counts. */
  readonly samples: readonly (readonly [number, string | null])[];
  /** All rows, by term. */
  readonly rows: readonly LeaseRow[];
  /** Wall ms at which each read was sent. */
  readonly reads: readonly number[];
}

const sampleEveryMs = 5;
const readEveryMs = 30;
const staleMs = 250;

const query =
  "SELECT toUInt32(term), toString(lease_id), holder, acquired_at_ns / 1e6, expires_at_ns / 1e6 FROM holdfast_publisher_lease " +
  "WHERE name = {name:String} SETTINGS max_threads = 1 FORMAT JSONCompactEachRow";

const [, , server = "", name = ""] = process.argv;
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
const url = new URL(server);
url.searchParams.set("query", query);
url.searchParams.set("param_name", name);
const post = (): Promise<string> =>
  new Promise((resolve, reject) => {
    const sent = request(url, { method: "POST", agent }, (answer) => {
      let text = "";
      answer.setEncoding("utf8");
      answer.on("data", (chunk: string) => (text += chunk));
      answer.on("end", () => (answer.statusCode === 200 ? resolve(text) : reject(new Error(text))));
      answer.on("error", reject);
    });
    sent.on("error", reject);
    sent.end();
  });

let rows: LeaseRow[] = [];
let readSent = -Infinity;
const reads: number[] = [];
const read = async (): Promise<void> => {
  const at = Date.now();
  const lines = (await post()).split("\n").filter((line) => line !== "");
  rows = lines.map((line) => {
    const [term, leaseId, holder, acquired, expires] = JSON.parse(line) as [number, string, string, number, number];
    return { term, leaseId, holder, acquired, expires };
  });
  readSent = at;
  reads.push(at);
};
const ended = { now: false };
const reading = (async () => {
  while (!ended.now) {
    await read();
    await new Promise((resolve) => setTimeout(resolve, Math.max(0, readSent + readEveryMs - Date.now())));
  }
  // What has landed by now is in.
  await read();
})();
reading.catch((error: unknown) => {
  console.error(error);
  process.exit(1);
});

const samples: [number, string | null][] = [];
// By an absolute schedule: a tick that comes late makes none of the later ones late, and those that it slept through are left out.
const from = performance.now();
let ticks = 0;
let told = false;
const tick = (): void => {
  const at = Date.now();
  if (at - readSent <= staleMs) samples.push([at, liveAt(rows, at)]);
  ticks = Math.max(ticks + 1, Math.floor((performance.now() - from) / sampleEveryMs));
  if (!ended.now) setTimeout(tick, from + ticks * sampleEveryMs - performance.now());
  if (!told && samples.length > 0) told = process.send?.({ sampling: true }) === true;
};
tick();
process.once("message", () => {
  ended.now = true;
  void reading.then(() => {
    agent.destroy();
    const sampled: Sampled = { samples, rows: rows.sort((a, b) => a.term - b.term), reads };
    process.send?.(sampled, () => process.exit(0));
  });
});
process.on("disconnect", () => process.exit());
