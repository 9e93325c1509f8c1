import { errorCode, ObjectStoreError, type ObjectStoreErrorCode } from "@holdfast/object-store";

/** What one attempt that went wrong means: for the caller, for the object, and for the next attempt. */
export type Failure = {
  readonly error: Error;
  /** Whether a write may have taken effect; "no" only where that is proved. */
  readonly stored: "no" | "maybe";
  /** Whether the same request may do better a moment later. */
  readonly again: boolean;
  /** The server said that the condition of the request does not hold. */
  readonly condition: boolean;
  /** The status of the server's answer, 0 when there was none. */
  readonly status: number;
};

/** What a failure is about. */
export type Asked = {
  /** The operation and the key, for people: `PUT of "a/b"`. */
  readonly what: string;
  readonly bucket: string;
  /** Whether it carries a condition (ifGenerationMatch). */
  readonly conditional: boolean;
  /** What a 404 is about: the object, the bucket (of a listing, or a new object), or an upload session. */
  readonly absent: "object" | "bucket" | "session";
};

type Meaning = {
  readonly code: ObjectStoreErrorCode;
  readonly advice: string;
  readonly again?: true;
  readonly condition?: true;
};

/** An answer that cannot be right. */
export const corrupt = (what: string, why: string): ObjectStoreError =>
  new ObjectStoreError("CORRUPT", `${what}: ${why}`);

/** A failure of ours, in which nothing can have been stored. */
export const nothingStored = (error: Error, again = false): Failure => ({
  error,
  stored: "no",
  again,
  condition: false,
  status: 0,
});

// Codes of a scope that the caller runs in: its own error, and final.
const scopeCodes = new Set<unknown>(["DEADLINE_EXCEEDED", "CANCELED", "SCOPE_CLOSED", "LEASE_LOST"]);

/**
 * The one place where an error of the bound client becomes one of the contract. Nothing of what the server wrote besides its status and its
 * reason comes into the message, and the client's error is not kept as the cause: both can repeat tokens, upload addresses and whatever
 * else of the request a server chose to write back.
 */
export function failureOf(thrown: unknown, asked: Asked): Failure {
  if (thrown instanceof ObjectStoreError) return { ...nothingStored(thrown), stored: "maybe" };
  const { outcome, status, code, text } = factsOf(thrown);
  // deadline-http proves what became of a request; what it has no word about never became one.
  const stored = outcome === "unknown" ? "maybe" : "no";
  if (thrown instanceof Error && scopeCodes.has(errorCode(thrown))) return { ...nothingStored(thrown), stored };
  if (status !== 0) return answered(thrown, asked, stored);
  const fail = ({ code: own, advice, again = false }: Omit<Meaning, "again"> & { again?: boolean }): Failure => {
    const cause = code === undefined ? undefined : Object.assign(new Error(code), { code });
    const message = `${asked.what} failed (${code ?? nameOf(thrown)}): ${advice}`;
    return { ...nothingStored(new ObjectStoreError(own, message, { cause }), again), stored };
  };
  if (text.startsWith("[REQUEST_FAILED] no credentials for the request")) return fail(unauthorized(text, code));
  // Before a request is handed to a connection there is none: the name was not found, or nothing listens there.
  if (outcome === "not-sent") {
    const advice = "the server could not be reached; look at apiEndpoint and the network";
    // A certificate that is not trusted is not trusted a moment later either.
    const trusted = !/CERT|SIGNATURE/.test(code ?? "");
    return fail({ code: "UNAVAILABLE", advice, again: trusted });
  }
  if (outcome === undefined) return fail({ code: "UNAVAILABLE", advice: "the request could not be made" });
  return fail({ code: "UNAVAILABLE", advice: "the connection broke, or the answer could not be read", again: true });
}

function unauthorized(text: string, code: string | undefined): Omit<Meaning, "again"> & { again?: boolean } {
  const passing = /no token within/.test(text) || /^(?:E[A-Z]|5\d\d$|429$)/.test(code ?? "");
  return passing
    ? { code: "UNAVAILABLE", advice: "no access token came; the server of the tokens does not answer", again: true }
    : { code: "ACCESS_DENIED", advice: "no access token could be obtained; look at credentials, or at the client's" };
}

function answered(thrown: unknown, asked: Asked, stored: "no" | "maybe"): Failure {
  const { status, inside, reason } = factsOf(thrown);
  const meaning = meaningOf(thrown, asked);
  const said = reason === undefined ? "" : ` ${reason}`;
  const answer = inside === undefined ? `${status}${said}` : `${status}, with the error ${inside}${said} inside`;
  return {
    error: new ObjectStoreError(
      meaning.code,
      `${asked.what} in bucket ${asked.bucket}: the server answered ${answer}: ${meaning.advice}`,
    ),
    stored,
    again: meaning.again ?? false,
    condition: meaning.condition ?? false,
    status,
  };
}

const tooMany = new Set(["rateLimitExceeded", "userRateLimitExceeded", "backendError"]);

function meaningOf(thrown: unknown, asked: Asked): Meaning {
  const facts = factsOf(thrown);
  const { inside, reason = "" } = facts;
  const status = inside ?? facts.status;
  // The condition was looked at and does not hold: nothing was written.
  if (status === 412 || status === 304) {
    if (asked.conditional)
      return { code: "PRECONDITION_FAILED", advice: "the condition does not hold", condition: true };
    return { code: "UNAVAILABLE", advice: "no condition was sent; look at what stands before the store (a proxy)" };
  }
  // Another request changes the object at this moment. That is neither "taken" nor "free": ask again, and look before believing.
  if (status === 409) {
    return { code: "UNAVAILABLE", advice: "a conflict with another request, whose outcome is not known", again: true };
  }
  if (status === 429 || tooMany.has(reason)) {
    return {
      code: "UNAVAILABLE",
      advice: "too many requests (of one object, more than one write a second)",
      again: true,
    };
  }
  if (/^userProject/.test(reason)) {
    const advice = "the requester pays for this bucket; set userProject to a project that these credentials may bill";
    return { code: "CONFIG_INVALID", advice };
  }
  if (status === 401) return { code: "ACCESS_DENIED", advice: "the access token is not valid; look at credentials" };
  if (status === 403) {
    return {
      code: "ACCESS_DENIED",
      advice:
        "the credentials do not allow it (storage.objects.create, get, list, delete; to replace, create and delete)",
    };
  }
  if (asked.absent === "session" && goneStatuses.has(status)) return gone;
  if (status === 404) return absent(facts.text, asked);
  // Nothing was stored, and the bytes that arrived were not those of the checksum: the body changed meanwhile, or the network changed it.
  if (status === 400 && /crc32c|md5|hash/i.test(facts.text)) {
    const advice =
      "the bytes that arrived do not have the checksum that was sent; the body or the network changed them";
    return { code: "CORRUPT", advice, again: true };
  }
  if (status === 413) return { code: "TOO_LARGE", advice: "more bytes than the store takes" };
  if (status === 416) return { code: "INVALID_RANGE", advice: "the range has no byte inside the object" };
  if (status === 408) return { code: "UNAVAILABLE", advice: "something on the way waited too long", again: true };
  // The server, or a proxy before it, gave up at some moment of its own.
  if (status >= 500) return { code: "UNAVAILABLE", advice: "the server had a problem", again: true };
  // An answer that should have been a success and could not be read: the effect may be there.
  if (status < 300) return { code: "CORRUPT", advice: "the answer could not be read", again: true };
  if (status < 400) return { code: "UNAVAILABLE", advice: "something before the store redirects; look at apiEndpoint" };
  return { code: "UNAVAILABLE", advice: "it refuses the request; look at kmsKeyName, storageClass and the key" };
}

/** What an upload session is answered with that is no longer there: it has expired (404, 410) or was deleted (499). */
export const goneStatuses: ReadonlySet<number> = new Set([404, 410, 499]);
const gone: Meaning = {
  code: "UNAVAILABLE",
  advice: "the upload session is no longer there; it has expired or was ended",
  again: true,
};

function absent(text: string, asked: Asked): Meaning {
  // The reason is the same for both; only the words tell which.
  if (asked.absent === "object" && !/bucket does not exist/i.test(text))
    return { code: "NOT_FOUND", advice: "nothing is there" };
  return { code: "CONFIG_INVALID", advice: "there is no such bucket; make it, or change the option bucket" };
}

type Facts = {
  readonly outcome: "not-sent" | "refused" | "unknown" | undefined;
  readonly status: number;
  /** The code of an error in the body of a success. */
  readonly inside: number | undefined;
  readonly reason: string | undefined;
  /** A code of Node or of the token's server. */
  readonly code: string | undefined;
  /** Words to recognise a failure by; never shown. */
  readonly text: string;
};

type Fields = { readonly [name: string]: unknown };
const fields = (value: unknown): Fields => (typeof value === "object" && value !== null ? (value as Fields) : {});

function factsOf(thrown: unknown): Facts {
  const { outcome, httpStatus, cause, message } = fields(thrown);
  const { code, errors, message: words } = fields(cause);
  const status = typeof httpStatus === "number" ? httpStatus : 0;
  const listed: unknown = Array.isArray(errors) ? errors[0] : undefined;
  return {
    outcome: outcome === "not-sent" || outcome === "refused" || outcome === "unknown" ? outcome : undefined,
    status,
    inside: typeof code === "number" && status > 0 && status < 300 && code !== status ? code : undefined,
    reason: plainWord(fields(listed)["reason"]),
    code: typeof code === "number" ? String(code) : plainWord(code),
    text: [message, words, fields(listed)["message"]].filter((part) => typeof part === "string").join("\n"),
  };
}

const nameOf = (thrown: unknown): string => plainWord(fields(thrown)["name"]) ?? "Error";

/** A word of letters, digits and little else, as codes and reasons are: nothing that could be a secret or a page of HTML. */
function plainWord(value: unknown): string | undefined {
  return typeof value === "string" && /^[A-Za-z0-9_.-]{1,60}$/.test(value) ? value : undefined;
}
