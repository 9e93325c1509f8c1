// The thread of `Lateness`: probes the machine, and an engine where there is one, over and over, and reports on request. It has its own event
// loop and its own connections. How late the machine is comes from a server in this thread alone: an engine may let a probe wait behind the
// statements of the code under test, which must not excuse that code.
import { readFileSync } from "node:fs";
import { Agent, createServer, get } from "node:http";
import { parentPort, workerData } from "node:worker_threads";

/** @type {{ url: string | null, headers: Record<string, string> }} */
const { url, headers } = workerData;
const pauseMs = 20;
/** How many of the newest probes the pace is taken from. */
const recent = 20;

const nowMs = () => Number(process.hrtime.bigint()) / 1e6;

/** An HTTP server in this thread. */
async function ownServer() {
  const server = createServer((_, answer) => answer.end("1"));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${server.address().port}/`;
}

/**
 * For how long the test's own thread has waited for a processor, as the kernel counts it: this thread mostly sleeps, so the scheduler lets it run
 * at once where it makes one wait that computes. 0 where the kernel does not report it (it does on Linux).
 */
function waitedMs() {
  try {
    return Number(readFileSync(`/proc/${process.pid}/task/${process.pid}/schedstat`, "latin1").split(" ")[1]) / 1e6;
  } catch {
    return 0;
  }
}

/** One round trip after another on one connection, a pause before each. */
class Probe {
  /** @type {{ endedMs: number, tookMs: number, waitedMs: number }[]} */
  probes = [];
  begunMs = nowMs();
  /** @type {string | null} */
  failed = null;
  #agent = new Agent({ keepAlive: true, maxSockets: 1 });

  /** `quietMs`: what a pause and a round trip take on a machine that has nothing else to do, with room. */
  constructor(what, target, headers, quietMs) {
    Object.assign(this, { what, target, headers, quietMs });
  }

  /** Goes on until a round trip fails; calls `onReady` once there are enough probes for a pace. */
  async run(onReady) {
    try {
      for (;;) {
        this.begunMs = nowMs();
        await new Promise((resolve) => setTimeout(resolve, pauseMs));
        await this.#roundTrip();
        const endedMs = nowMs();
        this.probes.push({ endedMs, tookMs: endedMs - this.begunMs, waitedMs: waitedMs() });
        if (this.probes.length === recent) onReady();
      }
    } catch (error) {
      this.failed = `the probe of ${this.what} failed: ${error.message}`;
      parentPort.postMessage({ failed: this.failed });
    }
  }

  #roundTrip() {
    return new Promise((resolve, reject) => {
      get(this.target, { agent: this.#agent, headers: this.headers }, (answer) => {
        answer.resume();
        answer.on("error", reject);
        answer.on("end", () =>
          answer.statusCode === 200 ? resolve() : reject(new Error(`it answered with status ${answer.statusCode}`)),
        );
      }).on("error", reject);
    });
  }

  #lateMs(tookMs) {
    return Math.max(0, tookMs - this.quietMs);
  }

  /** By how much the probes that ended since then were late together, with the one under way, and what the test's thread waited. */
  sinceMs(fromMs) {
    const ended = this.probes.filter(({ endedMs }) => endedMs >= fromMs);
    const before = this.probes.findLast(({ endedMs }) => endedMs < fromMs);
    const late =
      ended.reduce((sum, { tookMs }) => sum + this.#lateMs(tookMs), 0) + this.#lateMs(nowMs() - this.begunMs);
    return late + waitedMs() - (before?.waitedMs ?? 0);
  }

  /** What the newest probes took together, against as many on a quiet machine. */
  pace() {
    const newest = this.probes.slice(-recent);
    const tookMs = newest.reduce((sum, one) => sum + one.tookMs, 0);
    return Math.max(1, tookMs / (newest.length * this.quietMs));
  }
}

const machine = new Probe("the machine", await ownServer(), {}, pauseMs + 5);
const engine = url === null ? machine : new Probe("the engine", `${url}/?query=SELECT%201`, headers, pauseMs + 15);
const all = new Set([machine, engine]);

parentPort.on("message", ({ id, fromMs }) => {
  const asked = fromMs === undefined ? engine : machine;
  const { failed } = asked;
  const value = failed !== null ? null : fromMs === undefined ? asked.pace() : asked.sinceMs(fromMs);
  parentPort.postMessage({ id, value, failed });
});

// Not awaited: a thread takes messages only once its module has been evaluated.
let notReady = all.size;
for (const one of all) {
  void one.run(() => {
    notReady -= 1;
    if (notReady === 0) parentPort.postMessage({ ready: true });
  });
}
