import { RequestError } from "../errors.js";
import { headerOf } from "./handler.js";
import type { VendorRequest } from "./vendor.js";

interface ServiceError extends Error {
  readonly $metadata: { readonly clockSkewCorrected?: unknown };
}

/** An answer of the service, as the SDK throws it; its class may be of another copy of the SDK. */
export function isServiceError(error: unknown): error is ServiceError {
  return (
    error instanceof Error && "$metadata" in error && typeof error.$metadata === "object" && error.$metadata !== null
  );
}

/** Of the vendor's error these stay behind: the answer (with the request and its headers), and a hint for other retriers. */
const left = new Set(["$response", "$retryable"]);

/**
 * Gives the error of an answered call what users of the SDK look at: the vendor's `name`, `$metadata`, `$fault`, the
 * members of the answer, and its class (the SDK's waiters and examples branch on these; users of this package branch on
 * `code`, never on a class).
 */
export function recognisable(error: unknown): unknown {
  if (!(error instanceof RequestError) || !isServiceError(error.cause)) return error;
  const { cause } = error;
  Object.setPrototypeOf(error, Object.getPrototypeOf(cause) as object);
  Object.defineProperty(error, "name", { value: cause.name, enumerable: false, configurable: true, writable: true });
  for (const [member, value] of Object.entries(cause)) {
    if (!left.has(member) && !(member in error)) Object.defineProperty(error, member, { value, enumerable: true });
  }
  return error;
}

const secretHeaders = [
  "authorization",
  "x-amz-security-token",
  "x-amz-server-side-encryption-customer-key",
  "x-amz-copy-source-server-side-encryption-customer-key",
];

/**
 * Takes the request's secrets out of the vendor's error: S3 repeats the signature and the session token of a request
 * that it refuses for them, and the answer object leads to the request and its headers.
 */
export function withoutSecrets(error: unknown, request: VendorRequest | null): unknown {
  if (!(error instanceof Error)) return error;
  if ("$response" in error) hide(error, "$response");
  if (request) clean(error, secretsOf(request));
  return error;
}

function secretsOf(request: VendorRequest): readonly string[] {
  const headers = secretHeaders.flatMap((name) => headerOf(request, name) ?? []);
  const signature = /\bSignature=([^,\s]+)/.exec(headerOf(request, "authorization") ?? "")?.[1];
  return [...headers, ...(signature === undefined ? [] : [signature])].filter((secret) => secret !== "");
}

/** In texts at any depth: elements of an answer in XML may have elements of their own. */
function clean(object: object, secrets: readonly string[]): void {
  for (const [member, own] of Object.entries(Object.getOwnPropertyDescriptors(object))) {
    const value: unknown = own.value;
    if (typeof value === "string") {
      const text = secrets.reduce((rest, secret) => rest.replaceAll(secret, "***"), value);
      if (text !== value) Reflect.set(object, member, text);
    } else if (member !== "$response" && isData(value)) clean(value, secrets);
  }
}

/** What an answer was parsed into, and not an object of somebody's that leads anywhere. */
const isData = (value: unknown): value is object =>
  Array.isArray(value) ||
  (typeof value === "object" &&
    value !== null &&
    [Object.prototype, null].includes(Object.getPrototypeOf(value) as object | null));

/** Out of the way of whoever prints or logs the error; still there for who asks for it by name. */
function hide(error: Error, member: string): void {
  const own = Object.getOwnPropertyDescriptor(error, member);
  if (own?.configurable) Object.defineProperty(error, member, { ...own, enumerable: false });
}
