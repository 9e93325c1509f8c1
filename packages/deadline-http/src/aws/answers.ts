/**
 * What the service's error codes mean for a write. A code stands here only when it is raised before the operation is
 * executed; everything else is `unknown`. It counts only under an HTTP status that is itself an error: the same code
 * inside a 200 (CopyObject, CompleteMultipartUpload) came after the operation had begun.
 */
const refusals: Readonly<Record<string, string>> = {
  // Who asks: checked before anything else is done.
  AccessDenied: "the policy is evaluated first",
  AccountProblem: "the account may do nothing",
  AllAccessDisabled: "the account or bucket may do nothing",
  AuthorizationHeaderMalformed: "the signature cannot be read",
  ExpiredToken: "the credentials are checked first",
  InvalidAccessKeyId: "the credentials are checked first",
  InvalidSecurity: "the credentials are checked first",
  InvalidToken: "the credentials are checked first",
  NotSignedUp: "the account may do nothing",
  SignatureDoesNotMatch: "the signature is checked first, that of each part of a body before the part counts",
  RequestExpired: "the signature is checked first",
  // What it is asked of: there is nothing that it could have been done to.
  NoSuchBucket: "there is no such bucket",
  NoSuchKey: "there is no such object, or no source of a copy",
  NoSuchUpload: "there is no such multipart upload",
  NoSuchVersion: "there is no such version",
  NotFound: "as NoSuchKey, in answers without a body",
  InvalidObjectState: "the object is archived",
  PermanentRedirect: "the bucket is elsewhere; this address does nothing for it",
  TemporaryRedirect: "the bucket is elsewhere; this address does nothing for it",
  // Its condition or a conflict: S3 writes nothing unless the condition holds.
  PreconditionFailed: "the condition did not hold (412)",
  ConditionalRequestConflict: "another write came between condition and commit (409); nothing was committed",
  OperationAborted: "another operation on the same resource is under way (409); this one was not begun",
  BucketAlreadyExists: "the name is taken",
  BucketAlreadyOwnedByYou: "the name is taken",
  BucketNotEmpty: "checked before deletion",
  // How it is asked: an argument that is refused as it is read.
  BadDigest: "the body's checksum is compared before the object is committed",
  EntityTooLarge: "refused by its declared length",
  EntityTooSmall: "parts are checked before they are put together",
  IllegalLocationConstraintException: "the region is checked first",
  IncompleteBody: "a body shorter than declared is never committed",
  InvalidArgument: "an argument is refused as it is read",
  InvalidBucketName: "an argument is refused as it is read",
  InvalidDigest: "an argument is refused as it is read",
  InvalidPart: "parts are checked before they are put together",
  InvalidPartOrder: "parts are checked before they are put together",
  InvalidRange: "an argument is refused as it is read",
  InvalidRequest: "an argument is refused as it is read",
  InvalidStorageClass: "an argument is refused as it is read",
  InvalidURI: "the address is refused as it is read",
  KeyTooLongError: "the key is refused as it is read",
  MalformedXML: "the document is refused as it is read",
  MetadataTooLarge: "headers are refused as they are read",
  MethodNotAllowed: "the resource does not know the method (405)",
  MissingContentLength: "headers are refused as they are read",
  NotImplemented: "a header asks for what the store cannot do (501)",
  XAmzContentSHA256Mismatch: "the body's checksum is compared before the object is committed",
};

/** Raised at the door, before the request is looked at any further; may be sent again, writes included. */
const throttles = new Set([
  "BandwidthLimitExceeded",
  "RequestLimitExceeded",
  "RequestThrottled",
  "RequestThrottledException",
  "SlowDown",
  "SlowDownRead",
  "SlowDownWrite",
  "ThrottledException",
  "Throttling",
  "ThrottlingException",
  "TooManyRequests",
  "TooManyRequestsException",
]);

/** The service's own wait for the rest of the request, or for its work, ran out. */
const timeLimits = new Set(["RequestTimeout", "RequestTimeoutException"]);

export type Verdict =
  /** Its own time limit: timed out, not sent again. */
  | "time-limit"
  /** Not begun, for a reason that passes. */
  | "throttled"
  /** Signed by a clock that is off. The SDK has corrected its own by the answer's date, so another attempt is signed anew. */
  | "skewed"
  /** Not begun, and another attempt would fare no better. */
  | "refused"
  /** A fault on the service's side: a write may have been executed. */
  | "fault"
  | "other";

/** What an answer of an error status says. `code` is the service's, or the vendor's name for one without a body. */
export function verdictOf(status: number, code: string, skewCorrected: boolean): Verdict {
  if (status < 300) return "fault";
  if (timeLimits.has(code) || status === 408) return "time-limit";
  if (throttles.has(code) || status === 429) return "throttled";
  // An answer to HEAD has no body and so no code: there the correction itself is the sign.
  if (code === "RequestTimeTooSkewed" || (status === 403 && skewCorrected && !Object.hasOwn(refusals, code)))
    return "skewed";
  if (Object.hasOwn(refusals, code)) return "refused";
  return status >= 500 && status !== 501 ? "fault" : "other";
}
