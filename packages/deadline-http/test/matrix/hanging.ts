// Faults in which something never comes: each call ends by its bound.
import {
  blackholePort,
  late,
  effect,
  lookupStalls,
  oauthToken,
  awsContainerCredentials,
  delayAnswer,
} from "@holdfast/testkit";
import {
  stallBeforeBody,
  stallBeforeHeaders,
  stallMidBody,
  stallMidHeaders,
  startFaultServer,
  trickle,
  type Answer,
} from "@holdfast/testkit";
import { expect } from "vitest";
import { within } from "@holdfast/deadline-http";
import type { Plan, World } from "./cell.js";
import type { MatrixClient } from "./clients.js";
import type { Fault } from "./table.js";

export const boundMs = 400;
const exceeded = (outcome: "not-sent" | "unknown"): Plan["expected"] => ({
  end: "failed",
  code: "DEADLINE_EXCEEDED",
  outcome,
  timedOut: true,
});

/** The server gets the request, and its answer never ends. */
const unanswered =
  (fault: (good: Answer) => Answer) =>
  (client: MatrixClient): Plan => ({
    boundMs,
    answers: [fault(client.good)],
    expected: exceeded("unknown"),
    received: 1,
  });

/** The request does not get as far as a connected, secured socket. */
const unreached = (client: MatrixClient, o: Pick<Plan, "client" | "prepare">): Plan => ({
  boundMs,
  answers: [client.good],
  expected: exceeded("not-sent"),
  received: 0,
  ...o,
});

/** A call that has the only socket, and keeps it. */
export async function occupy(world: World): Promise<void> {
  const leave = new AbortController();
  const first = within(20_000, () => world.client.call(), { signal: leave.signal }).catch(() => undefined);
  await world.proxy.until(() => world.server.received.length === 1);
  world.defer(async () => {
    leave.abort();
    await first;
  });
}

const credentials = (client: MatrixClient): Answer | null => {
  if (client.vendor === "S3") return awsContainerCredentials();
  return client.vendor === "GCS" ? oauthToken() : null;
};
const noCredentials = "the client has no credentials that it fetches";

const withCredentials = (answer: Answer): Pick<Plan, "client"> => ({
  client: async ({ defer }) => {
    const endpoint = await startFaultServer({ scripts: [{ answers: [answer] }] });
    defer(() => endpoint[Symbol.asyncDispose]());
    return { credentialsUrl: endpoint.url };
  },
});

export const hanging: readonly Fault[] = [
  {
    ids: "DL-03 DL-11",
    name: "stall before accept",
    plan: (client) => ({
      boundMs,
      answers: [client.good],
      // The connection stands in the backlog, so the request is handed to it: nobody can know that it is not read.
      prepare: async ({ proxy }) => proxy.pause(),
      expected: exceeded("unknown"),
      received: 0,
      attempts: 1,
    }),
  },
  { ids: "DL-03 DL-11", name: "stall before headers", plan: unanswered(stallBeforeHeaders) },
  { ids: "DL-03 DL-11", name: "stall mid-headers", plan: unanswered(stallMidHeaders) },
  { ids: "DL-03 DL-11", name: "stall before the body", plan: unanswered(stallBeforeBody) },
  { ids: "DL-03 DL-11", name: "stall mid-body", plan: unanswered((good) => stallMidBody(good, 20)) },
  { ids: "DL-03 DL-11", name: "one byte of the body per 30 ms", plan: unanswered((good) => trickle(good, 30)) },
  {
    ids: "DL-03 DL-11",
    name: "one byte of headers and body per 30 ms",
    plan: unanswered((good) => trickle(good, 30, { headers: true })),
  },
  {
    ids: "DL-03 DL-11",
    name: "a late answer, after the client left",
    plan: (client) => ({
      ...unanswered((good) => late(effect("done", good)))(client),
      // What makes `unknown` the only true word: it happens after the caller was told.
      afterwards: async ({ server }) => {
        await server.until(() => server.effects.length === 1);
        expect(server.effects[0]).toMatchObject({ name: "done", clientPresent: false });
      },
    }),
  },
  {
    ids: "DL-03 DL-07",
    name: "pool exhausted, one socket",
    plan: (client) => ({
      ...unreached(client, { client: () => ({ maxSockets: 1 }), prepare: occupy }),
      answers: [stallBeforeHeaders(client.good)],
      afterwards: ({ proxy }) => expect(proxy.connections).toHaveLength(1),
    }),
  },
  {
    ids: "DL-03 DL-07",
    name: "a connect that never completes",
    plan: (client) => {
      if (process.platform !== "linux") return "only Linux lets a full backlog drop connections";
      return unreached(client, {
        client: async ({ defer }) => {
          const hole = await blackholePort();
          defer(() => hole[Symbol.asyncDispose]());
          return { url: `http://${hole.host}:${hole.port}` };
        },
      });
    },
  },
  {
    ids: "DL-03 DL-07",
    name: "a name that is looked up for ever",
    plan: (client) =>
      unreached(client, {
        client: ({ proxy }) => ({ url: `http://stalls-${proxy.port}.invalid:${proxy.port}`, lookup: lookupStalls }),
      }),
  },
  {
    ids: "DL-03 DL-07",
    name: "a TLS handshake that never ends",
    plan: (client) => {
      if (client.vendor === "fetch")
        return "over https undici does not tell when it writes: it counts as sent from the start";
      return {
        ...unreached(client, {
          client: ({ proxy }) => ({ url: `https://127.0.0.1:${proxy.port}` }),
          prepare: async ({ proxy }) => proxy.pause(),
        }),
        // Its hello, in the log of the proxy as the bytes of a connection, is no byte of a request.
        attempts: 1,
        afterwards: ({ proxy }) => {
          expect(proxy.connections[0]!.bytesFromClient).toBeGreaterThan(0);
          expect(proxy.connections[0]!.tls?.client.payloadRecords).toBe(0);
        },
      };
    },
  },
  {
    ids: "DL-03 DL-07 DL-22",
    name: "credentials that never come",
    plan: (client) => {
      const given = credentials(client);
      return given === null ? noCredentials : unreached(client, withCredentials(stallBeforeHeaders(given)));
    },
  },
  {
    ids: "DL-03 DL-22",
    name: "credentials that take 150 ms",
    plan: (client) => {
      const given = credentials(client);
      if (given === null) return noCredentials;
      return {
        boundMs: 5_000,
        answers: [client.good],
        ...withCredentials(delayAnswer(150, given)),
        expected: { end: "answered" },
        received: 1,
      };
    },
  },
];
