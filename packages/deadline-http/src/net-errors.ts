interface NodeError {
  readonly code?: unknown;
  readonly syscall?: unknown;
  readonly errors?: unknown;
  readonly cause?: unknown;
  readonly message?: unknown;
  /** An error of this package, perhaps of another copy of it, or of a client that was bound twice. */
  readonly outcome?: unknown;
}

const asNodeError = (error: unknown): NodeError => (typeof error === "object" && error !== null ? error : {});

/**
 * The error's code as Node gives it, looked for in its causes too (fetch hides it there).
 * @internal
 */
export function errorCode(error: unknown): string | undefined {
  const { code, cause } = asNodeError(error);
  if (typeof code === "string") return code;
  return cause === undefined ? undefined : errorCode(cause);
}

/** Raised while looking up a name or before a connection stands, never on a connected one. */
const beforeConnection = new Set([
  "ENOTFOUND",
  "EAI_AGAIN",
  "EAI_FAIL",
  "EAI_NODATA",
  "ECONNREFUSED",
  "UND_ERR_CONNECT_TIMEOUT",
]);

/**
 * The error by itself proves that no connection came to be, for an adapter that cannot see the socket. Everything that
 * may also happen on a connected socket is left out.
 * @internal
 */
export function provesNotConnected(error: unknown): boolean {
  const { code, syscall, errors, cause, outcome } = asNodeError(error);
  // It knows of all its attempts; its cause is the last one.
  if (typeof outcome === "string") return outcome === "not-sent";
  // Several addresses were tried: each of them must have failed to connect.
  if (Array.isArray(errors) && errors.length > 0) return errors.every((one) => provesNotConnected(one));
  if (typeof code === "string" && (beforeConnection.has(code) || syscall === "connect" || syscall === "getaddrinfo"))
    return true;
  return cause !== undefined && provesNotConnected(cause);
}

const tlsCodes =
  /^(?:ERR_TLS_|ERR_SSL_|CERT_|EPROTO$|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_)/;

/**
 * A certificate or handshake that will fail the same way again.
 * @internal
 */
export function isTlsError(error: unknown): boolean {
  return tlsCodes.test(errorCode(error) ?? "");
}

const userInfo = /\/\/[^\s/@]+@/g;

/** The text without user and password of the addresses in it: fetch repeats an address that it refuses. */
const withoutCredentials = (text: string): string => text.replace(userInfo, "//***@");

/**
 * What an error says, its causes included, on one line, without credentials.
 * @internal
 */
export function errorText(error: unknown): string {
  return withoutCredentials(wholeText(error));
}

/**
 * Whether an error, or a cause of it, says user and password of an address.
 * @internal
 */
export function repeatsCredentials(error: unknown): boolean {
  const text = wholeText(error);
  return withoutCredentials(text) !== text;
}

function wholeText(error: unknown): string {
  const { message, errors, cause } = asNodeError(error);
  const own = typeof message === "string" && message !== "" ? message : (errorCode(error) ?? String(error));
  const inner: unknown = Array.isArray(errors) && errors.length > 0 ? errors[0] : cause;
  return inner === undefined || inner === null ? own : `${own}: ${wholeText(inner)}`;
}
