// One cell of the matrix: a client behind a proxy before a server, a fault, one call under a bound, and the judgement.
// What the call says of itself is compared with the byte log of the proxy, never with another opinion of the client.
// Bounds pass on the virtual clock, when the call hangs, and so do the pauses between attempts where a cell is about them.
import { expect } from "vitest";
import { systemClock, within, type Outcome } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { until } from "@holdfast-private/tests-machine";
import {
  startFaultProxy,
  startFaultServer,
  type Answer,
  type FaultProxy,
  type FaultServer,
  type ProxyRule,
} from "@holdfast/testkit";
import type { Failed } from "../support/clickhouse.js";
import { endsByMachine, endsIn, running, throughPauses, turns } from "../support/virtual-bound.js";
import type { ClientOptions, MatrixClient, OpenClient } from "./clients.js";

/** Where a cell is not about its bound: far more than any machine needs. */
export const ampleMs = 3_600_000;

export interface World {
  readonly server: FaultServer;
  readonly proxy: FaultProxy;
  readonly client: OpenClient;
  /** Aborted, it cancels the call. */
  readonly canceller: AbortController;
  /** Run when the cell is over, last first. */
  defer(end: () => unknown): void;
}

/** How a call ends; of an answered one the status, where the client shows it. */
export type Expected =
  | { readonly end: "answered" }
  | {
      readonly end: "failed";
      readonly code: "DEADLINE_EXCEEDED" | "REQUEST_FAILED" | "CANCELED";
      readonly outcome: Outcome;
      readonly timedOut: boolean;
    }
  /**
   * Which of several it is, a race decides; that it is true, the log. `thrownAway`: what was handed to the system as the connection's end
   * arrived may be thrown away by it, so `unknown` is true also when no byte arrived.
   */
  | { readonly end: "either"; readonly thrownAway?: true };

export interface Plan {
  readonly boundMs: number;
  /**
   * How the bound passes. `hangs`: when this says that the call hangs. `pauses`: while the call pauses. `machine`: by the machine's own clock,
   * and a timer for the bound and the tolerance finds the call ended. Without, the bound has no part in it.
   */
  readonly time?: { readonly hangs: (world: World) => boolean } | "pauses" | "machine";
  /** The server's, in order; the last repeats. */
  readonly answers: readonly Answer[];
  readonly rules?: readonly ProxyRule[];
  readonly client?: (at: {
    readonly proxy: FaultProxy;
    defer(end: () => unknown): void;
  }) => Partial<ClientOptions> | Promise<Partial<ClientOptions>>;
  /** Before the call; what arrives at the proxy by then is not the call's. */
  readonly prepare?: (world: World) => Promise<unknown>;
  /** While the call is on its way. */
  readonly during?: (world: World) => Promise<unknown>;
  readonly expected: Expected;
  /** Requests that the server received whole, of this call. */
  readonly received: number;
  /** Requests of which the proxy saw a byte; as many as `received` unless given. */
  readonly attempts?: number;
  readonly afterwards?: (world: World) => unknown;
  /** How many timers of the clock are left when the call has ended, which are not its own. Without, none. */
  readonly timersLeft?: number;
}

/** Bytes of requests that the proxy read: over TLS those inside, as its records show. */
const requestBytes = (proxy: FaultProxy): number =>
  proxy.connections.reduce((sum, c) => sum + (c.tls ? c.tls.client.payloadRecords : c.bytesFromClient), 0);

export async function runCell(client: MatrixClient, plan: Plan): Promise<void> {
  const ends: (() => unknown)[] = [];
  const defer = (end: () => unknown): void => void ends.push(end);
  try {
    const server = await startFaultServer({ scripts: [{ answers: plan.answers }] });
    defer(() => server[Symbol.asyncDispose]());
    const proxy = await startFaultProxy({ target: { port: server.port }, rules: plan.rules ?? [] });
    defer(() => proxy[Symbol.asyncDispose]());
    const clock = typeof plan.time === "object" || plan.time === "pauses" ? new VirtualClock() : null;
    const opened = client.open({
      url: proxy.url,
      clock: clock ?? systemClock,
      ...(await plan.client?.({ proxy, defer })),
    });
    defer(() => opened.close());
    await judged({ server, proxy, client: opened, canceller: new AbortController(), defer }, plan, clock);
  } finally {
    for (const end of ends.reverse()) await end();
  }
}

async function judged(world: World, plan: Plan, clock: VirtualClock | null): Promise<void> {
  const { server, proxy } = world;
  await plan.prepare?.(world);
  await proxy.settled();
  const before = { bytes: requestBytes(proxy), requests: proxy.requests.length, received: server.received.length };
  const ended = await endOf(world, plan, clock);
  await proxy.settled();
  await server.settled();

  const { expected } = plan;
  if (expected.end === "answered") expect(ended).toBeNull();
  if (expected.end === "failed") {
    const { code, outcome, timedOut } = expected;
    expect(ended, ended?.message ?? "it was answered").toMatchObject({ code, outcome, timedOut });
  }
  const bytes = (): number => requestBytes(proxy) - before.bytes;
  const thrownAway = expected.end === "either" && expected.thrownAway === true;
  // What was handed to the system arrives, if not at once; what is not-sent must not.
  if (ended?.outcome === "unknown" && !thrownAway) {
    await until("a byte arrives of what may have been sent", () => bytes() > 0);
  }
  const lost = thrownAway && ended?.outcome === "unknown" && bytes() === 0;
  if (!lost) agrees(ended, bytes(), server.received.length - before.received);
  const requests = proxy.requests.slice(before.requests);
  if (expected.end !== "either") {
    expect(server.received.length - before.received, "requests that the server received").toBe(plan.received);
    expect(requests.length, "requests that the proxy saw").toBe(plan.attempts ?? plan.received);
  }
  await plan.afterwards?.(world);
  // No pause, after which it would go again past the bound.
  if (clock) expect(clock.pending, "timers that are left").toBe(plan.timersLeft ?? 0);
}

/** `not-sent` if and only if no byte of any attempt arrived; an answer and a refusal need a request that was received. */
function agrees(ended: Failed | null, bytes: number, received: number): void {
  const outcome = ended === null ? "answered" : ended.outcome;
  if (bytes === 0) expect(outcome, "no byte arrived").toBe("not-sent");
  else expect(outcome, `${bytes} bytes arrived`).not.toBe("not-sent");
  if (outcome === "answered" || outcome === "refused") expect(received).toBeGreaterThan(0);
}

/** How the call ends (null: it is answered), its time passing as the plan says. */
async function endOf(world: World, plan: Plan, clock: VirtualClock | null): Promise<Failed | null> {
  const { time, boundMs } = plan;
  const go = (): Promise<unknown> => world.client.call();
  if (time === "machine") return endsByMachine(boundMs, go);
  const o = { name: "the bound", signal: world.canceller.signal, ...(clock && { clock }) };
  const call = running(
    within(boundMs, go, o).then(
      () => null,
      (error: unknown) => error as Failed,
    ),
  );
  await plan.during?.(world);
  if (!clock) return call.end;
  if (typeof time !== "object") return throughPauses(clock, 2, call);
  await until("the call hangs", () => call.over() || time.hangs(world));
  // The waits of undici, of which nothing shows.
  await turns(30);
  return endsIn(clock, boundMs, call);
}
