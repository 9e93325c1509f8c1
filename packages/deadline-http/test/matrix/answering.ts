// Faults that are answers: storms, limits, refusals, exceptions, bodies that cannot be decoded.
import {
  badGzip,
  cutGzip,
  effect,
  exception,
  exceptionIn200,
  exceptionShapes,
  gcsError,
  s3Error,
  timeLimit159,
  timeLimit319,
  timeLimit473,
  times,
  unavailable,
  wrongEncoding,
  type Answer,
} from "@holdfast/testkit";
import { expect } from "vitest";
import type { Outcome } from "@holdfast/deadline-http";
import { ampleMs, type Plan } from "./cell.js";
import type { MatrixClient, Vendor } from "./clients.js";
import type { Fault } from "./table.js";

const answered: Plan["expected"] = { end: "answered" };
const failed = (outcome: Outcome, timedOut = false): Plan["expected"] => ({
  end: "failed",
  code: "REQUEST_FAILED",
  outcome,
  timedOut,
});

/** 503 for ever: three attempts of a read, one of a write, which may have been executed. fetch gives the last response back. */
function storm(client: MatrixClient, answer: Answer, boundMs: number, attemptsOfRead: number): Plan {
  const read = client.kind === "read";
  const expected = client.vendor === "fetch" ? answered : failed(read ? "refused" : "unknown");
  return { boundMs, answers: [answer], expected, received: read ? attemptsOfRead : 1 };
}

const stormy = (retryAfter: number | undefined): Fault => ({
  ids: "DL-05 DL-12",
  name: `503 for ever, ${retryAfter === undefined ? "without Retry-After" : `Retry-After ${retryAfter}`}`,
  plan: (client) => storm(client, unavailable(retryAfter), ampleMs, 3),
});

/** An answer of each vendor's own; null: it has none such. */
function own(
  ids: string,
  name: string,
  answers: Partial<Record<Vendor, Answer>>,
  expect: (client: MatrixClient) => Pick<Plan, "expected" | "received">,
): Fault {
  return {
    ids,
    name,
    plan: (client) => {
      const answer = answers[client.vendor];
      if (answer === undefined) return "to fetch a response of any status is a success";
      return { boundMs: ampleMs, answers: [answer, client.good], ...expect(client) };
    },
  };
}

const clickHouseOnly = (ids: string, name: string, plan: (client: MatrixClient) => Plan | string): Fault => ({
  ids,
  name,
  plan: (client) => (client.vendor === "ClickHouse" ? plan(client) : "it is an answer of ClickHouse's"),
});

const limits = [
  ["159", timeLimit159()],
  ["473", timeLimit473()],
  ["319", timeLimit319()],
] as const;

/** What becomes of an answer whose body does not decode as it says. */
type Undecodable = "bad gzip" | "cut gzip" | "another content-encoding than it says";

function undecodedEnd(client: MatrixClient, what: Undecodable): Pick<Plan, "expected" | "received"> {
  const { vendor, kind } = client;
  // The S3 client gives bodies as they come.
  if (vendor === "S3") return { expected: answered, received: 1 };
  // By the rules of fetch a gzip stream may end early; its length, as HTTP says it, was kept to.
  if (vendor === "fetch" && what === "cut gzip") return { expected: answered, received: 1 };
  if (client.name === "GCS download") {
    // The vendor decodes gzip itself, behind a body that came whole: a read that was answered, and is not read again.
    const other = what === "another content-encoding than it says";
    return { expected: other ? answered : failed("refused"), received: 1 };
  }
  // fetch has given the response back by then, so that there is no other attempt.
  return { expected: failed("unknown"), received: kind === "read" && vendor !== "fetch" ? 3 : 1 };
}

const undecodable = (name: Undecodable, fault: (good: Answer) => Answer): Fault => ({
  ids: "DL-11 DL-12",
  name,
  plan: (client) => ({ boundMs: ampleMs, answers: [fault(client.good)], ...undecodedEnd(client, name) }),
});

const busy = exception({ code: 286, name: "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE" });
const throwIf = { code: 395, name: "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO" };

export const answering: readonly Fault[] = [
  stormy(undefined),
  stormy(1),
  stormy(60),
  {
    ids: "DL-05 DL-12",
    name: "503 for ever, the bound shorter than the pauses",
    // Pauses of 100 and 200 ms: the second does not fit.
    plan: (client) => {
      const plan = storm(client, unavailable(1), 250, 2);
      return { ...plan, time: "pauses", ...(client.kind === "read" && { expected: failed("refused") }) };
    },
  },
  {
    ids: "DL-12",
    name: "503 twice, then an answer",
    plan: (client) => ({
      ...storm(client, unavailable(), ampleMs, 3),
      answers: [...times(2, unavailable()), client.good],
      ...(client.kind === "read" && { expected: answered }),
    }),
  },
  own(
    "DL-06 DL-12",
    "no such table, object or bucket",
    {
      ClickHouse: exception({ code: 60, name: "UNKNOWN_TABLE" }, 404),
      S3: s3Error("NoSuchKey", 404),
      GCS: gcsError(404, "notFound"),
    },
    () => ({ expected: failed("refused"), received: 1 }),
  ),
  own(
    "DL-10",
    "the server's own time limit, HTTP 408",
    { ClickHouse: { status: 408 }, S3: s3Error("RequestTimeout", 408), GCS: gcsError(408, "timeout") },
    () => ({ expected: failed("unknown", true), received: 1 }),
  ),
  own(
    "DL-12",
    "too many requests, then an answer",
    {
      ClickHouse: exception({ code: 202, name: "TOO_MANY_SIMULTANEOUS_QUERIES" }),
      S3: s3Error("SlowDown", 503),
      GCS: gcsError(429, "rateLimitExceeded"),
    },
    (client) => {
      // S3's throttle stands before all else, so that a write may go again as well.
      const again = client.kind === "read" || client.vendor === "S3";
      return { expected: again ? answered : failed("refused"), received: again ? 2 : 1 };
    },
  ),
  ...limits.flatMap(([code, limit]) =>
    [true, false].map((done) =>
      clickHouseOnly("DL-09 DL-10", `the server's time limit ${code}, ${done ? "with" : "without"} effect`, () => ({
        boundMs: ampleMs,
        answers: [done ? effect("rows", limit) : limit],
        expected: failed("unknown", true),
        received: 1,
        afterwards: ({ server }) => expect(server.effects).toHaveLength(done ? 1 : 0),
      })),
    ),
  ),
  ...exceptionShapes.map((shape) =>
    clickHouseOnly("DL-25", `an exception in a 200: ${shape}`, (client) => ({
      boundMs: ampleMs,
      answers: [exceptionIn200(shape, throwIf)],
      expected: failed(client.kind === "read" ? "refused" : "unknown"),
      received: 1,
    })),
  ),
  clickHouseOnly("DL-13", "286 once, then an answer", (client) =>
    client.kind === "read"
      ? "it is about writes"
      : { boundMs: ampleMs, answers: [busy, client.good], expected: answered, received: 2 },
  ),
  clickHouseOnly("DL-13", "286 for ever", (client) =>
    client.kind === "read"
      ? "it is about writes"
      : { boundMs: ampleMs, answers: [busy], expected: failed("refused"), received: 3 },
  ),
  undecodable("bad gzip", badGzip),
  undecodable("cut gzip", cutGzip),
  undecodable("another content-encoding than it says", (good) => wrongEncoding(good, "br")),
];
