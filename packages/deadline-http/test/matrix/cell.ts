// One cell of the matrix: a client behind a proxy before a server, a fault, one call under a bound, and the judgement.
// What the call says of itself is compared with the byte log of the proxy, never with another opinion of the client.
import { monitorEventLoopDelay } from "node:perf_hooks";
import { expect } from "vitest";
import { within, type Outcome } from "@holdfast/deadline-http";
import {
  nowMs,
  startFaultProxy,
  startFaultServer,
  type Answer,
  type FaultProxy,
  type FaultServer,
  type ProxyRule,
} from "@holdfast/testkit";
import type { ClientOptions, MatrixClient, OpenClient } from "./clients.js";

/** The tolerance that DL-03 gives. */
const toleranceMs = 100;

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
  /** Which of several it is, a race decides; that it is true, the log. */
  | { readonly end: "either" };

export interface Plan {
  readonly boundMs: number;
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
}

interface Ended {
  readonly code?: string;
  readonly outcome?: Outcome;
  readonly timedOut?: boolean;
  readonly message?: string;
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
    const opened = client.open({ url: proxy.url, ...(await plan.client?.({ proxy, defer })) });
    defer(() => opened.close());
    await judged({ server, proxy, client: opened, canceller: new AbortController(), defer }, plan);
  } finally {
    for (const end of ends.reverse()) await end();
  }
}

async function judged(world: World, plan: Plan): Promise<void> {
  const { server, proxy } = world;
  await plan.prepare?.(world);
  await proxy.settled();
  const before = { bytes: requestBytes(proxy), requests: proxy.requests.length, received: server.received.length };
  const call = timed(() =>
    within(plan.boundMs, () => world.client.call(), { name: "the bound", signal: world.canceller.signal }),
  );
  await plan.during?.(world);
  const { ended, startedAt, tookMs, loopDelayMs } = await call;
  await proxy.settled();
  await server.settled();

  const allowedMs = plan.boundMs + toleranceMs + loopDelayMs;
  expect(tookMs, "the call ends by its bound").toBeLessThanOrEqual(allowedMs);
  const { expected } = plan;
  if (expected.end === "answered") expect(ended).toBeNull();
  if (expected.end === "failed") {
    const { code, outcome, timedOut } = expected;
    expect(ended, ended?.message ?? "it was answered").toMatchObject({ code, outcome, timedOut });
  }
  agrees(ended, requestBytes(proxy) - before.bytes, server.received.length - before.received);
  const requests = proxy.requests.slice(before.requests);
  for (const { firstByteAt } of requests) {
    expect(firstByteAt - startedAt, "no attempt starts past the deadline").toBeLessThanOrEqual(allowedMs);
  }
  if (expected.end !== "either") {
    expect(server.received.length - before.received, "requests that the server received").toBe(plan.received);
    expect(requests.length, "requests that the proxy saw").toBe(plan.attempts ?? plan.received);
  }
  await plan.afterwards?.(world);
}

/** `not-sent` if and only if no byte of any attempt arrived; an answer and a refusal need a request that was received. */
function agrees(ended: Ended | null, bytes: number, received: number): void {
  const outcome = ended === null ? "answered" : ended.outcome;
  if (bytes === 0) expect(outcome, "no byte arrived").toBe("not-sent");
  else expect(outcome, `${bytes} bytes arrived`).not.toBe("not-sent");
  if (outcome === "answered" || outcome === "refused") expect(received).toBeGreaterThan(0);
}

/** How a call ended (null: it was answered), and how long the event loop was held up meanwhile. */
async function timed(
  call: () => Promise<unknown>,
): Promise<{ ended: Ended | null; startedAt: number; tookMs: number; loopDelayMs: number }> {
  const delay = monitorEventLoopDelay({ resolution: 5 });
  delay.enable();
  const startedAt = nowMs();
  const ended = await call().then(
    () => null,
    (error: unknown) => error as Ended,
  );
  const tookMs = nowMs() - startedAt;
  delay.disable();
  return { ended, startedAt, tookMs, loopDelayMs: delay.max / 1e6 };
}
