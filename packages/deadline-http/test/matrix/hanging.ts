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
import type { LookupFunction } from "node:net";
import { expect } from "vitest";
import { within } from "@holdfast/deadline-http";
import { until } from "@holdfast-private/tests-machine";
import { ampleMs, type Plan, type World } from "./cell.js";
import type { MatrixClient } from "./clients.js";
import type { Fault } from "./table.js";

export const boundMs = 400;
const exceeded = (outcome: "not-sent" | "unknown"): Plan["expected"] => ({
  end: "failed",
  code: "DEADLINE_EXCEEDED",
  outcome,
  timedOut: true,
});

type Hangs = (world: World) => boolean;
const received: Hangs = ({ server }) => server.received.length === 1;
/** A part of the answer has gone to the client. */
const answering: Hangs = ({ proxy }) => (proxy.requests[0]?.answerPassed ?? 0) > 0;
/** A part of it has left the server: the proxy passes headers on when they are whole. */
const begun: Hangs = ({ proxy }) => (proxy.connections[0]?.bytesFromServer ?? 0) > 0;
/** It waits for its socket, or for the connection to stand; of a client that shows neither, nobody can say. */
const waiting: Hangs = ({ client }) => client.waiting();

/** The server gets the request, and its answer never ends. */
const unanswered =
  (fault: (good: Answer) => Answer, hangs: Hangs) =>
  (client: MatrixClient): Plan => ({
    boundMs,
    time: { hangs },
    answers: [fault(client.good)],
    expected: exceeded("unknown"),
    received: 1,
  });

/** The request does not get as far as a connected, secured socket. */
const unreached = (client: MatrixClient, hangs: Hangs, o: Pick<Plan, "client" | "prepare">): Plan => ({
  boundMs,
  time: { hangs },
  answers: [client.good],
  expected: exceeded("not-sent"),
  received: 0,
  ...o,
});

/** A call that has the only socket, and keeps it. */
export async function occupy(world: World): Promise<void> {
  const leave = new AbortController();
  const first = within(ampleMs, () => world.client.call(), { signal: leave.signal }).catch(() => undefined);
  await until("it has the socket", () => received(world));
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

/** Also says how often they were asked for. */
function withCredentials(answer: Answer): Pick<Plan, "client"> & { asked(): number } {
  let asked = 0;
  return {
    asked: () => asked,
    client: async ({ defer }) => {
      const counted: Answer = (request) => {
        asked += 1;
        return typeof answer === "function" ? answer(request) : answer;
      };
      const endpoint = await startFaultServer({ scripts: [{ answers: [counted] }] });
      defer(() => endpoint[Symbol.asyncDispose]());
      return { credentialsUrl: endpoint.url };
    },
  };
}

export const hanging: readonly Fault[] = [
  {
    ids: "DL-03 DL-11",
    name: "stall before accept",
    plan: (client) => ({
      boundMs,
      time: { hangs: ({ proxy }) => proxy.requests.length === 1 },
      answers: [client.good],
      // The connection stands in the backlog, so the request is handed to it: nobody can know that it is not read.
      prepare: async ({ proxy }) => proxy.pause(),
      expected: exceeded("unknown"),
      received: 0,
      attempts: 1,
    }),
  },
  { ids: "DL-03 DL-11", name: "stall before headers", plan: unanswered(stallBeforeHeaders, received) },
  {
    ids: "DL-03 DL-11",
    name: "stall before headers, by the machine's own clock",
    plan: (client) => ({
      boundMs,
      time: "machine",
      answers: [stallBeforeHeaders(client.good)],
      // How far it gets within the bound, the machine decides.
      expected: { end: "either" },
      received: 1,
    }),
  },
  { ids: "DL-03 DL-11", name: "stall mid-headers", plan: unanswered(stallMidHeaders, begun) },
  { ids: "DL-03 DL-11", name: "stall before the body", plan: unanswered(stallBeforeBody, answering) },
  { ids: "DL-03 DL-11", name: "stall mid-body", plan: unanswered((good) => stallMidBody(good, 20), answering) },
  {
    ids: "DL-03 DL-11",
    name: "one byte of the body per 30 ms",
    plan: unanswered((good) => trickle(good, 30), answering),
  },
  {
    ids: "DL-03 DL-11",
    name: "one byte of headers and body per 30 ms",
    plan: unanswered((good) => trickle(good, 30, { headers: true }), begun),
  },
  {
    ids: "DL-03 DL-11",
    name: "a late answer, after the client left",
    plan: (client) => ({
      ...unanswered((good) => late(effect("done", good)), received)(client),
      // What makes `unknown` the only true word: it happens after the caller was told.
      afterwards: async ({ server }) => {
        await until("it happens", () => server.effects.length === 1);
        expect(server.effects[0]).toMatchObject({ name: "done", clientPresent: false });
      },
    }),
  },
  {
    ids: "DL-03 DL-07",
    name: "pool exhausted, one socket",
    plan: (client) => ({
      ...unreached(client, waiting, { client: () => ({ maxSockets: 1 }), prepare: occupy }),
      answers: [stallBeforeHeaders(client.good)],
      afterwards: ({ proxy }) => expect(proxy.connections).toHaveLength(1),
    }),
  },
  {
    ids: "DL-03 DL-07",
    name: "a connect that never completes",
    plan: (client) => {
      if (process.platform !== "linux") return "only Linux lets a full backlog drop connections";
      return unreached(client, waiting, {
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
    plan: (client) => {
      let asked = 0;
      const lookup: LookupFunction = (...args) => {
        asked += 1;
        lookupStalls(...args);
      };
      return unreached(client, () => asked > 0, {
        client: ({ proxy }) => ({ url: `http://stalls-${proxy.port}.invalid:${proxy.port}`, lookup }),
      });
    },
  },
  {
    ids: "DL-03 DL-07",
    name: "a TLS handshake that never ends",
    plan: (client) => {
      if (client.vendor === "fetch")
        return "over https undici does not tell when it writes: it counts as sent from the start";
      return {
        ...unreached(client, ({ proxy }) => (proxy.connections[0]?.bytesFromClient ?? 0) > 0, {
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
      if (given === null) return noCredentials;
      const { asked, ...o } = withCredentials(stallBeforeHeaders(given));
      // The fetch of a token is shared by all calls, so that it outlives this one, with a bound of its own.
      const timersLeft = client.vendor === "GCS" ? 1 : 0;
      return { ...unreached(client, () => asked() === 1, o), timersLeft };
    },
  },
  {
    ids: "DL-03 DL-22",
    name: "credentials that take 150 ms",
    plan: (client) => {
      const given = credentials(client);
      if (given === null) return noCredentials;
      const { client: credentialed } = withCredentials(delayAnswer(150, given));
      const expected = { end: "answered" } as const;
      return { boundMs: ampleMs, answers: [client.good], client: credentialed!, expected, received: 1 };
    },
  },
];
