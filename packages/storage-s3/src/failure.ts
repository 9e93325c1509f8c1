import { errorCode, ObjectStoreError, type ObjectStoreErrorCode } from "@holdfast/object-store";
import type { ChecksumMode } from "./options.js";

/** What one attempt that went wrong means: for the caller, for the object, and for the next attempt. */
export type Failure = {
  readonly error: Error;
  /** Whether a write may have taken effect; "no" only where that is proved. */
  readonly stored: "no" | "maybe";
  /** Whether the same request may do better a moment later. */
  readonly again: boolean;
  /** The server said that the condition of the request does not hold. */
  readonly condition: boolean;
  /** The server's own code, or its status as text. */
  readonly serverCode: string;
};

/** What a failure is about. */
export type Asked = {
  /** The operation and the key, for people: `PUT of "a/b"`. */
  readonly what: string;
  readonly bucket: string;
  readonly checksum: ChecksumMode;
  /** Whether the request was given to the transport. */
  readonly handed: boolean;
  /** Whether it carries a condition (If-None-Match, If-Match). */
  readonly conditional: boolean;
  /** The status that came, where it is known: of an error inside a success the SDK makes a 503. */
  readonly cameAs?: number | undefined;
};

type Meaning = {
  readonly code: ObjectStoreErrorCode;
  readonly advice: string;
  readonly stored?: "maybe";
  readonly again?: true;
  readonly condition?: true;
};

// What a server says that has refused a request because there are too many: it has not begun with it.
const throttles = new Set(
  "SlowDown ServiceUnavailable Throttling ThrottlingException ThrottledException RequestThrottled RequestThrottledException TooManyRequests TooManyRequestsException RequestLimitExceeded BandwidthLimitExceeded".split(
    " ",
  ),
);

// Only what Node's own check of the certificate says: other TLS errors (a bad record, an alert) come on a connection that stood, and perhaps
// after the request was sent.
const certificates = /^(?!ERR_SSL_).*(?:CERT|SIGNATURE)/;

/**
 * The one place where an error of the SDK, of the transport or of the server becomes one of the contract. Nothing of what the server
 * wrote beside its code comes into the message, and the SDK's error is not kept as the cause: both can carry signatures, session tokens and
 * whatever else of the request a server chose to repeat.
 */
export function failureOf(thrown: unknown, asked: Asked): Failure {
  const status = statusOf(thrown);
  if (status !== undefined) return answered(thrown, status, asked);
  const code = errorCode(thrown);
  const fail = (meaning: Meaning, serverCode = code ?? nameOf(thrown)): Failure => ({
    error: new ObjectStoreError(meaning.code, `${asked.what} failed (${serverCode}): ${meaning.advice}`, {
      cause: safeCause(thrown),
    }),
    stored: meaning.stored ?? "no",
    again: meaning.again ?? false,
    condition: false,
    serverCode,
  });
  // A client that is bound by deadline-http proves what became of its request.
  const outcome = outcomeOf(thrown);
  if (outcome !== undefined && thrown instanceof Error) {
    const ended =
      code === "DEADLINE_EXCEEDED" || code === "CANCELED" || code === "SCOPE_CLOSED" || code === "LEASE_LOST";
    return {
      error: thrown,
      stored: outcome === "unknown" ? "maybe" : "no",
      again: !ended,
      condition: false,
      serverCode: code ?? "",
    };
  }
  // Ours, or a body's own error: it says itself what was wrong.
  if (thrown instanceof ObjectStoreError) {
    return {
      error: thrown,
      stored: asked.handed ? "maybe" : "no",
      again: false,
      condition: false,
      serverCode: thrown.code,
    };
  }
  // Nothing was given to the transport: credentials could not be had, or the SDK refused its input.
  if (!asked.handed) {
    const credentials = /credential|token/i.test(nameOf(thrown));
    return credentials
      ? fail({
          code: "ACCESS_DENIED",
          advice: "no credentials could be had; look at the option credentials, or at the client's",
        })
      : fail({ code: "UNAVAILABLE", advice: "the request could not be made" });
  }
  // Before a connection there is no request: the name was not found, or nobody listens there.
  if (syscallOf(thrown) === "connect" || syscallOf(thrown) === "getaddrinfo") {
    return fail({
      code: "UNAVAILABLE",
      advice: "the server could not be reached; look at the endpoint and the network",
      again: true,
    });
  }
  // A certificate that is not trusted ends the handshake, before the request. Trying again does not change it.
  if (code !== undefined && certificates.test(code)) {
    return fail({ code: "UNAVAILABLE", advice: "the server's certificate is not trusted; look at the option ca" });
  }
  // Anything else happened after bytes may have left: a reset, a timeout of the client's own, an answer that cannot be read.
  return fail({
    code: "UNAVAILABLE",
    advice: "the connection broke, or the answer could not be read",
    stored: "maybe",
    again: true,
  });
}

function answered(thrown: unknown, status: number, asked: Asked): Failure {
  const serverCode = serverCodeOf(thrown, status);
  const meaning = meaningOf(status, serverCode, asked);
  // The server had begun with the request when it said 200, so nothing that follows proves that it did nothing: not even a throttle.
  const inside = asked.cameAs !== undefined && asked.cameAs < 300;
  const answer = inside ? `${asked.cameAs}, with the error ${serverCode} inside` : `${status} ${serverCode}`;
  const id = requestIdOf(thrown);
  const where = id === undefined ? "" : `, request ${id}`;
  return {
    error: new ObjectStoreError(
      meaning.code,
      `${asked.what} in bucket ${asked.bucket}: the server answered ${answer}${where}: ${meaning.advice}`,
    ),
    stored: inside ? "maybe" : (meaning.stored ?? "no"),
    again: meaning.again ?? false,
    condition: meaning.condition ?? false,
    serverCode,
  };
}

function meaningOf(status: number, code: string, asked: Asked): Meaning {
  const other =
    asked.checksum === "none" ? "" : `; if it cannot take ${asked.checksum} checksums, set checksum to "md5" or "none"`;
  // The condition was looked at and does not hold: nothing was written.
  if (status === 412 || status === 304) {
    if (asked.conditional)
      return { code: "PRECONDITION_FAILED", advice: "the condition does not hold", condition: true };
    const advice = "no condition was sent; look at what stands before the store (a proxy, a policy of the bucket)";
    return { code: "UNAVAILABLE", advice };
  }
  // Another conditional request for the key is on its way. That is neither "taken" nor "free": ask again, and look before believing.
  if (status === 409) {
    return {
      code: "UNAVAILABLE",
      advice: "a conflict with another request, whose outcome is not established",
      stored: "maybe",
      again: true,
    };
  }
  // The clocks differ by more than the server takes. The SDK has read the server's time from this answer; each call tries once more by
  // itself, since of several at once only the first is told that the clock was corrected.
  if (code === "RequestTimeTooSkewed" || code === "RequestInTheFuture") {
    return {
      code: "ACCESS_DENIED",
      advice: "the clocks of this machine and the server differ too much; set this machine's clock",
      again: true,
    };
  }
  if (code === "SignatureDoesNotMatch") {
    return {
      code: "ACCESS_DENIED",
      advice: `the secret key is not the one of the access key, or something on the way changes headers${other}`,
    };
  }
  if (code === "ExpiredToken" || code === "TokenRefreshRequired") {
    return {
      code: "ACCESS_DENIED",
      advice: "the session credentials have expired; give a function as credentials that fetches new ones",
    };
  }
  if (code === "NoSuchBucket")
    return { code: "CONFIG_INVALID", advice: "there is no such bucket; make it, or change the option bucket" };
  if (
    status === 301 ||
    status === 307 ||
    code === "AuthorizationHeaderMalformed" ||
    code === "IllegalLocationConstraintException"
  ) {
    return { code: "CONFIG_INVALID", advice: "the bucket is in another region; change the option region" };
  }
  if (status === 401 || status === 403 || code === "InvalidAccessKeyId" || code === "InvalidToken") {
    return {
      code: "ACCESS_DENIED",
      advice: "the credentials do not allow it (an absent key looks like this to who may not s3:ListBucket)",
    };
  }
  // Nothing was stored and the bytes on the wire were not those of the checksum: the body changed meanwhile, or the network did it.
  if (code === "BadDigest" || code === "XAmzContentSHA256Mismatch" || code === "InvalidDigest") {
    return {
      code: "CORRUPT",
      advice:
        "the bytes that arrived are not those of the checksum; the body changed while it was sent, or the network changed it",
      again: true,
    };
  }
  // The server gave up waiting for the body; S3 stores a body only when it is whole.
  if (code === "RequestTimeout" || code === "IncompleteBody") {
    return { code: "UNAVAILABLE", advice: "the server waited too long for the body", again: true };
  }
  if (code === "EntityTooLarge") return { code: "TOO_LARGE", advice: "more bytes than the store takes" };
  if (code === "KeyTooLongError") return { code: "INVALID_KEY", advice: "the key is longer than the store takes" };
  if (code === "MetadataTooLarge") return { code: "INVALID_METADATA", advice: "more metadata than the store takes" };
  if (status === 416) return { code: "INVALID_RANGE", advice: "the range has no byte inside the object" };
  // A 404 about the upload, and not about the key.
  if (code === "NoSuchUpload") {
    const advice =
      "the upload in parts is no longer there; somebody has ended it (a rule of the bucket, maybe) or completed it";
    return { code: "UNAVAILABLE", advice };
  }
  if (status === 404) return { code: "NOT_FOUND", advice: "nothing is there" };
  if (status === 501 || code === "NotImplemented") {
    const create = asked.conditional ? "; if it knows no conditions, set create and ifMatch to false" : "";
    return { code: "UNSUPPORTED", advice: `it does not know a header of the request${other}${create}` };
  }
  // A proxy's own: it may have passed the body on before it gave up waiting. S3 says RequestTimeout.
  if (status === 408) {
    return { code: "UNAVAILABLE", advice: "something on the way waited too long", stored: "maybe", again: true };
  }
  if (throttles.has(code) || status === 429) return { code: "UNAVAILABLE", advice: "too many requests", again: true };
  // 500, 502, 504 and a nameless 503: the server, or a proxy before it, gave up at some moment of its own.
  if (status >= 500) return { code: "UNAVAILABLE", advice: "the server had a problem", stored: "maybe", again: true };
  // An answer that should have been a success and could not be read, or an error inside it: the effect may be there.
  if (status < 300) return { code: "CORRUPT", advice: "the answer could not be read", stored: "maybe", again: true };
  return { code: "UNAVAILABLE", advice: `it refuses the request${other}` };
}

type Fields = { readonly [name: string]: unknown };
const fields = (thrown: unknown): Fields => (typeof thrown === "object" && thrown !== null ? (thrown as Fields) : {});
const nameOf = (thrown: unknown): string => plainWord(fields(thrown)["name"]) ?? "Error";
const syscallOf = (thrown: unknown): unknown => fields(thrown)["syscall"];
const statusOf = (thrown: unknown): number | undefined => {
  const status = fields(fields(thrown)["$metadata"])["httpStatusCode"];
  return typeof status === "number" ? status : undefined;
};
const requestIdOf = (thrown: unknown): string | undefined =>
  plainWord(fields(fields(thrown)["$metadata"])["requestId"]);

/** A word of letters, digits and little else, as codes and request ids are: nothing that could be a secret or a page of HTML. */
function plainWord(value: unknown): string | undefined {
  return typeof value === "string" && /^[A-Za-z0-9_.+/=-]{1,100}$/.test(value) ? value : undefined;
}

function serverCodeOf(thrown: unknown, status: number): string {
  const name = plainWord(fields(thrown)["Code"]) ?? plainWord(fields(thrown)["name"]);
  // HEAD has no body, so the SDK can only make a name of the status.
  return name === undefined || name === "UnknownError" || name === "Error" || name === "403" ? String(status) : name;
}

function outcomeOf(thrown: unknown): "not-sent" | "refused" | "unknown" | undefined {
  const outcome = fields(thrown)["outcome"];
  return outcome === "not-sent" || outcome === "refused" || outcome === "unknown" ? outcome : undefined;
}

/**
 * What may be shown of an error of the transport: its code, and its words where Node made them. Those of anybody else, a function
 * that fetches credentials say, may hold what it was given.
 */
function safeCause(thrown: unknown): Error | undefined {
  const code = plainWord(errorCode(thrown));
  if (!(thrown instanceof Error) || code === undefined) return undefined;
  const words = typeof syscallOf(thrown) === "string" ? thrown.message.slice(0, 300) : code;
  return Object.assign(new Error(words), { code });
}
