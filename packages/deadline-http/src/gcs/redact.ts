/** A vendor's error without what it drags along: request options, headers with a token, sockets, response bodies. */
export class VendorError extends Error {
  override readonly name: string;
  /** As the vendor gives it: an HTTP status as a number, a code of Node or of the vendor as text. */
  readonly code: string | number | undefined;
  /** Reasons that the API names. */
  readonly errors:
    readonly { readonly reason?: string | undefined; readonly message?: string | undefined }[] | undefined;

  constructor(text: string, name: string, code: string | number | undefined, errors?: VendorError["errors"]) {
    super(text);
    this.name = name;
    this.code = code;
    this.errors = errors;
  }
}

const query = /(https?:\/\/[^\s?"'<>]+)\?[^\s"'<>]*/g;
const bearer = /\b(Bearer|Basic)\s+[\w.~+/=-]+/gi;

/** Addresses keep no query: that of an upload session, or a signed one, is a key to the object. */
export const withoutSecrets = (text: string): string => text.replace(query, "$1?…").replace(bearer, "$1 ***");

interface Loose {
  readonly message?: unknown;
  readonly name?: unknown;
  readonly code?: unknown;
  readonly errors?: unknown;
  readonly type?: unknown;
}

const textOf = (value: unknown): string | undefined => (typeof value === "string" ? withoutSecrets(value) : undefined);

export function redacted(error: unknown): VendorError {
  const { message, name, code, errors } = (typeof error === "object" && error !== null ? error : {}) as Loose;
  const reasons = Array.isArray(errors)
    ? errors.map((one: Loose & { readonly reason?: unknown }) => ({
        reason: textOf(one.reason),
        message: textOf(one.message),
      }))
    : undefined;
  const known = typeof code === "string" || typeof code === "number" ? code : undefined;
  const text = textOf(message) ?? withoutSecrets(String(error));
  return new VendorError(text, textOf(name) ?? "Error", known, reasons);
}

/** Takes the token out of the request that an answer of the vendor repeats. */
export function withoutToken(
  answer: { readonly request?: { readonly headers?: Record<string, unknown> } } | null,
): void {
  const headers = answer?.request?.headers;
  if (!headers) return;
  for (const name of Object.keys(headers))
    if (/authorization|secret|encryption-key$/i.test(name)) headers[name] = "***";
}
