// The shapes in which the JSON API answers.
import type { Reply } from "./reply.js";

/** @internal */
export const json = (value: unknown, status = 200, headers: Readonly<Record<string, string>> = {}): Reply => ({
  status,
  headers: { "Content-Type": "application/json; charset=UTF-8", ...headers },
  body: JSON.stringify(value),
});

/** An error as GCS answers it: `gcsError(429, "rateLimitExceeded")`; with `headers`, say `{ "Retry-After": "1" }`. */
export const gcsError = (
  status: number,
  reason: string,
  message = "Made up by a fault server.",
  headers: Readonly<Record<string, string>> = {},
): Reply =>
  json({ error: { code: status, message, errors: [{ message, domain: "global", reason }] } }, status, headers);

const notHeld = "At least one of the pre-conditions you specified did not hold.";

/** A precondition that did not hold: 412 with the body that the reference shows. @internal */
export const conditionNotMet = (): Reply => {
  const error = { message: notHeld, domain: "global", reason: "conditionNotMet" };
  const errors = [{ ...error, locationType: "header", location: "If-Match" }];
  return json({ error: { code: 412, message: notHeld, errors } }, 412);
};

/** An error to a download or to a chunk of an upload: text, since what was asked for is no JSON. @internal */
export const textError = (status: number, text: string, headers: Readonly<Record<string, string>> = {}): Reply => ({
  status,
  headers: { "Content-Type": "text/plain; charset=utf-8", ...headers },
  body: text,
});
