// Goal: of a body that is half written when its bound runs out, no more leaves than what one write had handed over, whatever client writes
// it; without that rule the event loop hands on all that the kernel takes before a timer runs, and the request may be whole. And an
// answer that comes before the end of a body leaves no connection behind. Method: a server that stops reading bodies, and reads on when
// the bound has passed by the clock but no timer has run: in one process by a clock that jumps, as after a suspend, in a process of its
// own by SIGSTOP and by a blocked event loop. That one's time stands still until it is stopped, so that no machine is too slow for the bound.
import { describe, expect, it } from "vitest";
import { instantAfter, systemClock, within, type Clock } from "@holdfast/deadline-http";
import { until } from "@holdfast-private/tests-machine";
import { pieceBytes } from "../../src/node-http/pieces.js";
import { writersTo } from "../support/bodies.js";
import { reluctantServer, type ReluctantServer } from "../support/reluctant-server.js";
import { kernelQueues, startClient } from "../support/stopped-process.js";

/** Of the process of its own, where it begins to pass when all is as the test wants it. */
const boundMs = 200;
/** More than the kernel's queues hold on both sides. */
const bodyBytes = 20_000_000;

const socketsOf = ({ stuck }: ReluctantServer) => stuck.map(({ socket }) => socket);
const closed = async (server: ReluctantServer): Promise<void> => {
  for (const socket of socketsOf(server)) {
    if (!socket.destroyed) await new Promise((resolve) => socket.once("close", resolve));
  }
};

/** A machine that sleeps across a bound of an hour, its timers do not. */
const hourMs = 3_600_000;
function sleeper() {
  let sleptMs = 0;
  const now = () => instantAfter(systemClock.now(), sleptMs);
  return { clock: Object.assign(Object.create(systemClock) as Clock, { now }), sleep: () => void (sleptMs = hourMs) };
}

/** Waits until the body of each call is stuck. */
async function stuckIn({ stuck }: ReluctantServer, ...calls: readonly Promise<unknown>[]): Promise<void> {
  const over: unknown[] = [];
  const ended = (end: unknown): void => void over.push(end);
  for (const call of calls) call.then(ended, ended);
  await until("every body is stuck", () => {
    if (stuck.length === calls.length) return true;
    if (over.length > 0) throw new Error("a call ended before its body was stuck", { cause: over[0] });
    return false;
  });
}

it("DL-03 DL-27 no client completes a body after its bound, and each call ends though its timer has not run", async () => {
  const server = await reluctantServer();
  await using writers = writersTo(server.url);
  const calls = Object.values(writers.calls);
  await Promise.all(calls.map((call) => call(10)));
  const { clock, sleep } = sleeper();
  const ends = calls.map((call) => within(hourMs, () => call(bodyBytes), { clock }).catch((error: unknown) => error));
  await stuckIn(server, ...ends);
  sleep();
  for (const request of server.stuck) request.resume();
  for (const end of await Promise.all(ends))
    expect(end).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
  await closed(server);
  expect(server.whole).toEqual([]);
});

describe("an answer before the end of a body", () => {
  // undici ends the connection of such a body by itself.
  it.each(["statement", "rows", "object", "file"])(
    "DL-03 counts after the bound too, and no connection stays: %s",
    async (kind) => {
      const server = await reluctantServer();
      await using writers = writersTo(server.url);
      const call = writers.calls[kind]!;
      const { clock, sleep } = sleeper();
      const answered = within(hourMs, () => call(bodyBytes), { clock });
      await stuckIn(server, answered);
      sleep();
      server.answer();
      await answered;
      server.stuck[0]!.resume();
      await closed(server);
      expect(server.whole).toEqual([]);
      await within(hourMs, () => call(10));
    },
  );

  // Streams of rows, and what goes to Google, their clients stop writing by themselves.
  it.each(["statement", "object"])("DL-03 leaves the body to be written until the bound: %s", async (kind) => {
    const server = await reluctantServer();
    await using writers = writersTo(server.url);
    const answered = within(hourMs, () => writers.calls[kind]!(bodyBytes));
    await stuckIn(server, answered);
    server.answer();
    await answered;
    const [request] = server.stuck;
    request!.resume();
    while (request!.socket.bytesRead < bodyBytes) await systemClock.sleep(2);
  });
});

interface End {
  readonly kind: string;
  readonly code?: string;
  readonly outcome?: string;
}
type Told = Partial<End> & { readonly ready?: number; readonly blocking?: boolean };

describe.runIf(process.platform === "linux")("in a process of its own", () => {
  it.each(["stopped", "blocked"] as const)("DL-03 one that is %s lets out no more than a piece", async (how) => {
    const server = await reluctantServer();
    const client = startClient<Told>("writing.ts", server.url, boundMs, bodyBytes);
    const count = (): number => client.told.find(({ ready }) => ready !== undefined)?.ready ?? Infinity;
    await client.until(() => {
      const early = client.told.find(({ kind }) => kind !== undefined);
      if (early !== undefined) throw new Error(`a call ended before its body was stuck: ${JSON.stringify(early)}`);
      if (server.stuck.length < count()) return false;
      const { unsent } = kernelQueues(server.port);
      return socketsOf(server).every(({ remotePort = 0 }) => (unsent.get(remotePort) ?? 0) > 0);
    });
    await (how === "stopped" ? client.stop() : client.block());
    // Its timers go on: they wake no later than this, and find that their time has not come.
    await systemClock.sleep(boundMs);
    const sockets = socketsOf(server);
    const ports = sockets.map(({ remotePort = 0 }) => remotePort);
    for (const request of server.stuck) request.resume();
    // What comes after the kernel's queues are empty leaves the process when it goes on. First there, then here: nothing is between them.
    for (const half of ["unsent", "unreadThere"] as const) {
      await client.until(() => {
        const queue = kernelQueues(server.port)[half];
        return ports.every((port) => queue.get(port) === 0);
      });
    }
    const readBefore = sockets.map(({ bytesRead }) => bytesRead);
    for (const bytes of readBefore) expect(bytes).toBeLessThan(bodyBytes - 10 * pieceBytes);
    expect(client.told.some(({ kind }) => kind !== undefined)).toBe(false);
    client.goOn();
    await client.over;
    const ends = client.told.filter((one): one is End => one.kind !== undefined);
    expect(ends).toHaveLength(count());
    for (const end of ends) expect(end, end.kind).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
    await closed(server);
    expect(server.whole).toEqual([]);
    for (const [i, { bytesRead }] of sockets.entries())
      expect(bytesRead - readBefore[i]!).toBeLessThanOrEqual(pieceBytes);
  });
});
