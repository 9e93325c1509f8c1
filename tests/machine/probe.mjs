// The thread of `Lateness`: probes the machine over and over, and reports on request. It has its own event loop and its own
// connection, so nothing that the code under test does in the test's process makes it late.
import { readFileSync } from "node:fs";
import { Agent, createServer, get } from "node:http";
import { parentPort, workerData } from "node:worker_threads";

/** @type {{ url: string | null, headers: Record<string, string> }} */
const { url, headers } = workerData;
const pauseMs = 20;
/** How many of the newest probes the pace is taken from. */
const recent = 20;

const nowMs = () => Number(process.hrtime.bigint()) / 1e6;
const agent = new Agent({ keepAlive: true, maxSockets: 1 });

/** Without an engine: an HTTP server in this thread. */
async function ownServer() {
  const server = createServer((_, answer) => answer.end("1"));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${server.address().port}/`;
}

const target = url === null ? await ownServer() : `${url}/?query=SELECT%201`;
/** What a pause and a round trip take on a machine that has nothing else to do, with room. */
const quietMs = url === null ? pauseMs + 5 : pauseMs + 15;

const roundTrip = () =>
  new Promise((resolve, reject) => {
    get(target, { agent, headers }, (answer) => {
      answer.resume();
      answer.on("end", resolve);
      answer.on("error", reject);
    }).on("error", reject);
  });

/**
 * For how long the test's own thread has waited for a processor, as the kernel counts it: this thread mostly sleeps, so the scheduler lets it run
 * at once where it makes one wait that computes. 0 where the kernel does not tell (it does on Linux).
 */
function waitedMs() {
  try {
    return Number(readFileSync(`/proc/${process.pid}/task/${process.pid}/schedstat`, "latin1").split(" ")[1]) / 1e6;
  } catch {
    return 0;
  }
}

/** @type {{ endedMs: number, tookMs: number, waitedMs: number }[]} */
const probes = [];
let begunMs = nowMs();
let failed = null;

const lateMs = (tookMs) => Math.max(0, tookMs - quietMs);

/** By how much the probes that ended since then were late together, with the one under way, and what the test's thread waited. */
function sinceMs(fromMs) {
  const ended = probes.filter(({ endedMs }) => endedMs >= fromMs);
  const before = probes.findLast(({ endedMs }) => endedMs < fromMs);
  const probed = ended.reduce((sum, { tookMs }) => sum + lateMs(tookMs), 0) + lateMs(nowMs() - begunMs);
  return probed + waitedMs() - (before?.waitedMs ?? 0);
}

/** What the newest probes took together, against as many on a quiet machine. */
function pace() {
  const newest = probes.slice(-recent);
  const tookMs = newest.reduce((sum, one) => sum + one.tookMs, 0);
  return Math.max(1, tookMs / (newest.length * quietMs));
}

parentPort.on("message", ({ id, fromMs }) => {
  const value = failed === null ? (fromMs === undefined ? pace() : sinceMs(fromMs)) : null;
  parentPort.postMessage({ id, value, failed });
});

async function probe() {
  for (;;) {
    begunMs = nowMs();
    await new Promise((resolve) => setTimeout(resolve, pauseMs));
    await roundTrip();
    const endedMs = nowMs();
    probes.push({ endedMs, tookMs: endedMs - begunMs, waitedMs: waitedMs() });
    if (probes.length === recent) parentPort.postMessage({ ready: true });
  }
}

// Not awaited: a thread takes messages only once its module has been evaluated.
probe().catch((error) => {
  failed = `the probe of the machine failed: ${error.message}`;
  parentPort.postMessage({ failed });
});
