// Faults in which a connection breaks or does not come to be.
import {
  closeIdle,
  cut,
  lookupFails,
  resetOnReuse,
  stallBeforeHeaders,
  type CutBy,
  type PerRequest,
  type Place,
} from "@holdfast/testkit";
import type { LookupFunction } from "node:net";
import { expect } from "vitest";
import { within } from "@holdfast/deadline-http";
import { until } from "@holdfast-private/tests-machine";
import { turns } from "../support/virtual-bound.js";
import { ampleMs, type Plan, type World } from "./cell.js";
import type { MatrixClient } from "./clients.js";
import { boundMs, occupy } from "./hanging.js";
import type { Fault } from "./table.js";

/** A port below those that systems give out, and none that fetch refuses to go to. */
const nobodysPort = 2;

const failed = (outcome: "not-sent" | "unknown"): Plan["expected"] => ({
  end: "failed",
  code: "REQUEST_FAILED",
  outcome,
  timedOut: false,
});
const answered: Plan["expected"] = { end: "answered" };

/** One call that goes well, its connection back in the pool. */
async function warm({ client, proxy }: World): Promise<void> {
  await within(ampleMs, () => client.call());
  await until("the answer is over", () => proxy.requests[0]?.answerComplete === true);
  await proxy.settled();
}

/** The first attempt breaks, the server is good to a second: a read has it, a write must not. */
function brokenOnce(client: MatrixClient, o: Pick<Plan, "answers" | "rules">, reachesServer: boolean): Plan {
  const first = reachesServer ? 1 : 0;
  const read = client.kind === "read";
  return {
    boundMs: ampleMs,
    ...o,
    expected: read ? answered : failed("unknown"),
    received: first + (read ? 1 : 0),
    attempts: read ? 2 : 1,
  };
}

const cutRequest = (place: string, afterBytes: PerRequest, by: CutBy, needsBody = false): Fault => ({
  ids: "DL-07 DL-11 DL-12",
  name: `the request cut ${place}, ${by.toUpperCase()}`,
  plan: (client) => {
    if (needsBody && !client.sendsBody) return "its request has no body";
    const rules = [{ times: 1, fault: { kind: "cut-request", afterBytes, by } as const }];
    return brokenOnce(client, { answers: [client.good], rules }, false);
  },
});

const cutAnswer = (place: Place, by: CutBy): Fault => ({
  ids: "DL-07 DL-11 DL-12",
  name: `the answer cut ${place}, ${by.toUpperCase()}`,
  plan: (client) => {
    const plan = brokenOnce(client, { answers: [cut(client.good, place, by, 20), client.good] }, true);
    // A response has been given to the caller by then, and it is read only once.
    const once = client.vendor === "fetch" && place === "mid-body";
    // What the caller reads as a stream was given to it with the headers; the others read a small body before they answer.
    const streamed = client.name === "S3 GetObject" && place === "mid-body";
    return once || streamed ? { ...plan, expected: failed("unknown"), received: 1, attempts: 1 } : plan;
  },
});

const canceled = (outcome: "not-sent" | "unknown"): Plan["expected"] => ({
  end: "failed",
  code: "CANCELED",
  outcome,
  timedOut: false,
});

const ends: readonly CutBy[] = ["fin", "rst"];

/** Fails the first two times, then finds this machine. */
function lookupFailsTwice(): LookupFunction {
  let asked = 0;
  return (host, o, callback) => {
    asked += 1;
    if (asked <= 2) lookupFails(host, o, callback);
    else if (o.all) callback(null, [{ address: "127.0.0.1", family: 4 }]);
    else callback(null, "127.0.0.1", 4);
  };
}

export const breaking: readonly Fault[] = [
  ...ends.flatMap((by) => [
    cutRequest("after 0 bytes", 0, by),
    cutRequest("after 1 byte", 1, by),
    cutRequest("mid-headers", ({ headBytes }) => Math.floor(headBytes / 2), by),
    cutRequest("after its headers", ({ headBytes }) => headBytes, by, true),
    cutRequest("mid-body", ({ headBytes }) => headBytes + 5, by, true),
  ]),
  ...ends.flatMap((by) => [cutAnswer("before-headers", by), cutAnswer("mid-headers", by), cutAnswer("mid-body", by)]),
  {
    ids: "DL-11 DL-12 DL-25",
    name: "the answer's body ends with its connection, and nothing shows that it is whole",
    plan: (client) => brokenOnce(client, { answers: [{ ...client.good, framing: "close" }, client.good] }, true),
  },
  {
    ids: "DL-07 DL-11 DL-12",
    name: "a pooled connection that is reset on reuse",
    plan: (client) => ({
      ...brokenOnce(client, { answers: [resetOnReuse(client.good), client.good] }, false),
      prepare: warm,
      afterwards: ({ proxy }) => expect(proxy.connections[0]!.requests.map((r) => r.number)).toEqual([1, 2]),
    }),
  },
  ...ends.map((by): Fault => ({
    ids: "DL-07 DL-11",
    name: `${by.toUpperCase()} on an idle connection, seen`,
    plan: (client) => ({
      boundMs: ampleMs,
      answers: [closeIdle(client.good, 0, by), client.good],
      prepare: async (world) => {
        await within(ampleMs, () => world.client.call());
        await until("the connection is closed", () => world.proxy.connections[0]?.closedAt !== undefined);
        await world.proxy.settled();
      },
      expected: answered,
      received: 1,
      afterwards: ({ proxy }) => expect(proxy.connections).toHaveLength(2),
    }),
  })),
  ...ends.map((by): Fault => ({
    ids: "DL-07",
    name: `${by.toUpperCase()} on an idle connection, racing the request`,
    plan: (client) => ({
      boundMs: ampleMs,
      answers: [closeIdle(client.good, 0, by), client.good],
      // At once: the end of the connection is on its way while the client takes it from the pool.
      prepare: ({ client: opened }) => within(ampleMs, () => opened.call()),
      expected: { end: "either", thrownAway: true },
      received: 1,
    }),
  })),
  {
    ids: "DL-05 DL-07",
    name: "connection refused",
    plan: (client) => ({
      boundMs: ampleMs,
      answers: [client.good],
      client: () => ({ url: `http://127.0.0.1:${nobodysPort}` }),
      expected: failed("not-sent"),
      received: 0,
    }),
  },
  {
    ids: "DL-05 DL-07",
    name: "connection refused, the pause longer than the bound",
    plan: (client) => ({
      boundMs: 80,
      time: "pauses",
      answers: [client.good],
      client: () => ({ url: `http://127.0.0.1:${nobodysPort}` }),
      expected: failed("not-sent"),
      received: 0,
    }),
  },
  {
    ids: "DL-05 DL-07",
    name: "name unresolved",
    plan: (client) => ({
      boundMs: ampleMs,
      answers: [client.good],
      client: ({ proxy }) => ({ url: `http://nowhere-${proxy.port}.invalid:${proxy.port}`, lookup: lookupFails }),
      expected: failed("not-sent"),
      received: 0,
    }),
  },
  {
    ids: "DL-07 DL-11",
    name: "name unresolved twice, then resolved",
    plan: (client) => ({
      boundMs: ampleMs,
      answers: [client.good],
      client: ({ proxy }) => ({ url: `http://twice-${proxy.port}.invalid:${proxy.port}`, lookup: lookupFailsTwice() }),
      expected: answered,
      received: 1,
    }),
  },
  {
    ids: "DL-02",
    name: "no time left",
    plan: (client) => ({
      boundMs: 0,
      answers: [client.good],
      expected: { end: "failed", code: "DEADLINE_EXCEEDED", outcome: "not-sent", timedOut: true },
      received: 0,
      afterwards: ({ proxy }) => expect(proxy.connections).toHaveLength(0),
    }),
  },
  {
    ids: "DL-23",
    name: "an abort before it is begun",
    plan: (client) => ({
      boundMs: ampleMs,
      answers: [client.good],
      prepare: async ({ canceller }) => canceller.abort(),
      expected: canceled("not-sent"),
      received: 0,
      afterwards: ({ proxy }) => expect(proxy.connections).toHaveLength(0),
    }),
  },
  {
    ids: "DL-23",
    name: "an abort in the queue for a socket",
    plan: (client) => ({
      boundMs: ampleMs,
      answers: [stallBeforeHeaders(client.good)],
      client: () => ({ maxSockets: 1 }),
      prepare: occupy,
      during: async ({ canceller, client: opened }) => {
        await until("it waits for the socket", () => opened.waiting());
        await turns(30);
        canceller.abort();
      },
      expected: canceled("not-sent"),
      received: 0,
    }),
  },
  {
    ids: "DL-23",
    name: "an abort after it was sent",
    plan: (client) => ({
      boundMs: ampleMs,
      answers: [stallBeforeHeaders(client.good)],
      during: async ({ canceller, server }) => {
        await until("it is there", () => server.received.length === 1);
        canceller.abort();
      },
      expected: canceled("unknown"),
      received: 1,
    }),
  },
  {
    ids: "DL-23 DL-03",
    name: "the deadline with a caller's signal that nobody aborts",
    plan: (client) => ({
      boundMs,
      time: { hangs: ({ server }) => server.received.length === 1 },
      answers: [stallBeforeHeaders(client.good)],
      expected: { end: "failed", code: "DEADLINE_EXCEEDED", outcome: "unknown", timedOut: true },
      received: 1,
    }),
  },
];
