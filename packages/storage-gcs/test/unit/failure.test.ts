// Goal: an error says no more than it proves, and nothing that the server wrote. Method: errors as the bound client makes them, through the
// one mapping.
import { RequestError } from "@holdfast/deadline-http";
import { expect, it } from "vitest";
import { failureOf, type Asked } from "../../src/failure.js";

const asked: Asked = { what: "PUT of k", bucket: "b", conditional: true, absent: "object" };
type Made = {
  status?: number;
  code?: number | string;
  reason?: string;
  message?: string;
  outcome?: "not-sent" | "refused" | "unknown";
};

const failed = ({
  status,
  code = status,
  reason,
  message = "hidden words",
  outcome = "refused",
}: Made): RequestError => {
  const errors = reason === undefined ? undefined : [{ reason, message }];
  const cause = Object.assign(new Error(message), { code, errors });
  return new RequestError(message, { outcome, httpStatus: status, cause });
};

it.each<[Made, string, Partial<ReturnType<typeof failureOf>>]>([
  [{ status: 412, reason: "conditionNotMet" }, "PRECONDITION_FAILED", { condition: true, stored: "no" }],
  [{ status: 304 }, "PRECONDITION_FAILED", { condition: true }],
  [{ status: 403, reason: "forbidden" }, "ACCESS_DENIED", { again: false }],
  [{ status: 401, reason: "authError" }, "ACCESS_DENIED", { again: false, status: 401 }],
  [{ status: 403, reason: "rateLimitExceeded" }, "UNAVAILABLE", { again: true }],
  [{ status: 429, reason: "rateLimitExceeded" }, "UNAVAILABLE", { again: true }],
  [{ status: 400, reason: "userProjectMissing" }, "CONFIG_INVALID", { again: false }],
  [{ status: 404, message: "No such object: b/k" }, "NOT_FOUND", {}],
  [{ status: 404, message: "The specified bucket does not exist." }, "CONFIG_INVALID", {}],
  [
    { status: 400, reason: "invalid", message: 'Provided CRC32C "a" doesn\'t match' },
    "CORRUPT",
    { again: true, stored: "no" },
  ],
  [{ status: 400, reason: "invalid" }, "UNAVAILABLE", { again: false }],
  [{ status: 413 }, "TOO_LARGE", {}],
  [{ status: 416 }, "INVALID_RANGE", {}],
  [{ status: 409, reason: "conflict" }, "UNAVAILABLE", { again: true }],
  [{ status: 503, outcome: "unknown" }, "UNAVAILABLE", { again: true, stored: "maybe" }],
  [{ status: 307, outcome: "unknown" }, "UNAVAILABLE", { again: false, stored: "maybe" }],
  [{ status: 200, code: 503, outcome: "unknown" }, "UNAVAILABLE", { again: true, stored: "maybe" }],
  [{ status: 200, code: "ERR", outcome: "unknown" }, "CORRUPT", { again: true, stored: "maybe" }],
  [{ code: "ECONNREFUSED", outcome: "not-sent" }, "UNAVAILABLE", { again: true, stored: "no" }],
  [{ code: "DEPTH_ZERO_SELF_SIGNED_CERT", outcome: "not-sent" }, "UNAVAILABLE", { again: false, stored: "no" }],
  [{ code: "ECONNRESET", outcome: "unknown" }, "UNAVAILABLE", { again: true, stored: "maybe" }],
  [{ message: "no credentials for the request: hidden", outcome: "not-sent" }, "ACCESS_DENIED", { again: false }],
  [
    { message: "no credentials for the request: no token within 5 ms", outcome: "not-sent" },
    "UNAVAILABLE",
    { again: true },
  ],
  [
    { message: "no credentials for the request", code: "ENOTFOUND", outcome: "not-sent" },
    "UNAVAILABLE",
    { again: true },
  ],
])("%j is %s", (made, code, expected) => {
  const failure = failureOf(failed(made), asked);
  expect(failure).toMatchObject({ error: { code }, ...expected });
  expect(`${failure.error.message} ${String(failure.error.cause)}`).not.toMatch(/hidden|doesn't match/);
  expect(failure.error.message).toContain("PUT of k");
});

it("a condition that was not sent is not one that did not hold", () => {
  expect(failureOf(failed({ status: 412 }), { ...asked, conditional: false })).toMatchObject({
    error: { code: "UNAVAILABLE" },
    condition: false,
  });
});

it("a 404 is about what was asked: the object, the bucket of a new one, a session", () => {
  const of = (absent: Asked["absent"]) => failureOf(failed({ status: 404 }), { ...asked, absent });
  expect(of("object").error).toMatchObject({ code: "NOT_FOUND" });
  expect(of("bucket").error).toMatchObject({ code: "CONFIG_INVALID" });
  expect(of("session")).toMatchObject({ error: { code: "UNAVAILABLE" }, again: true });
});
