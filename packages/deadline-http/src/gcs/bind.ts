import type { Storage } from "@google-cloud/storage";
import type { Clock } from "../clock.js";
import { checkMs } from "../clock.js";
import { ConfigError } from "../errors.js";
import { systemClock } from "../registry.js";
import { boundBucketClass, pagesStream, rulesOf, withCalls } from "./classes.js";
import { boundRequests, type ExchangeRules } from "./exchange.js";
import { detachedAuth, type Authorized } from "./token.js";
import { internalsOf, vendorClassOf, type AuthClient, type SendRequest, type StorageInternals } from "./vendor.js";

/** Options of {@link bind}. */
export interface BindOptions {
  /** Default: the machine's clock. */
  readonly clock?: Clock | undefined;
  /** Attempts of one request, the first included. Default 3. The client's own repetitions are off. */
  readonly maxAttempts?: number | undefined;
  /**
   * The bound of a token fetch. It is shared by all who wait for it, so that no caller's deadline cuts it; a caller waits
   * for it no longer than its own, and then fails not-sent. Default 30 000.
   */
  readonly tokenTimeoutMs?: number | undefined;
}

/** Bound Storages -> the caller's, so that binding a bound one does not nest. */
const originals = new WeakMap<Storage, Storage>();

/**
 * The same client, of the same type, of `@google-cloud/storage` 7 or 8. Its requests, and those of every bucket, file and
 * stream that comes from it, obey the scopes they are made in: token, socket, connect, headers, body and all attempts end
 * by the deadline; they are repeated as far as that is safe, and fail with an error that carries `code`, `timedOut` and
 * `outcome`. A stream ends by the deadline of the scope that it was made in, and with that scope.
 *
 * `storage` stays as it is, its objects too: only what is reached from the bound one is bound. A public method may be
 * several requests; its outcome is that of the gravest, and the start of an upload session counts as no effect. Uploads
 * that are not `resumable: false` are sent in chunks of `chunkSize` (default 8 MiB), kept until the server has them.
 *
 * Refused with `CONFIG_INVALID`: options that cannot work, continuing an upload (`uri`, `offset`, `isPartialUpload`) and
 * `TransferManager.uploadFileInChunks`. A TypeError tells of a client of another make.
 */
export function bind(storage: Storage, o: BindOptions = {}): Storage {
  const { clock = systemClock, maxAttempts = 3, tokenTimeoutMs = 30_000 } = o;
  checkMs("tokenTimeoutMs", tokenTimeoutMs);
  if (!Number.isInteger(maxAttempts) || maxAttempts < 1) {
    throw new ConfigError(`maxAttempts is ${maxAttempts}; give a whole number of at least 1`);
  }
  const original = originals.get(storage) ?? storage;
  const inner = internalsOf(original);
  const waiting = new WeakMap<object, Authorized>();
  const auth = detachedAuth(inner.authClient, { clock, tokenTimeoutMs, waiting });
  const sendRequest = vendorsSending(original, inner, auth);
  const rules: ExchangeRules = { clock, maxAttempts, inner, sendRequest, waiting };
  const bound = boundStorage(original, inner, auth, boundRequests(rules));
  rulesOf.set(bound, rules);
  originals.set(bound, original);
  return bound;
}

/** The vendor's own way to authorize and send, for the same endpoint, with the detached auth client. */
function vendorsSending(storage: Storage, inner: StorageInternals, auth: AuthClient): SendRequest {
  const Vendor = vendorClassOf(storage);
  const twin = internalsOf(
    new Vendor({
      apiEndpoint: inner.apiEndpoint,
      projectId: inner.projectId,
      authClient: auth as never,
      retryOptions: { autoRetry: false },
      ...(inner.universeDomain !== undefined && { universeDomain: inner.universeDomain }),
      ...(inner.useAuthWithCustomEndpoint !== undefined && {
        useAuthWithCustomEndpoint: inner.useAuthWithCustomEndpoint,
      }),
    }),
  );
  if (twin.apiEndpoint !== inner.apiEndpoint || twin.customEndpoint !== inner.customEndpoint) {
    throw new ConfigError(
      "STORAGE_EMULATOR_HOST has changed since this Storage was made; bind one made after the change",
    );
  }
  return twin.makeAuthenticatedRequest;
}

function boundStorage(original: Storage, inner: StorageInternals, auth: AuthClient, send: SendRequest): Storage {
  const Vendor = vendorClassOf(original);
  const bound = Object.create(original, {
    authClient: { value: auth },
    makeAuthenticatedRequest: { value: send },
    // A copy, since the vendor's methods write into it; with its repetitions off.
    retryOptions: { value: { ...inner.retryOptions, autoRetry: false, maxRetries: 0 } },
  }) as Storage;
  const BoundBucket = boundBucketClass(Vendor, original);
  // An empty name is the vendor's to refuse.
  bound.bucket = (name, options) =>
    name ? (new BoundBucket(bound, name, options) as never) : original.bucket(name, options);
  bound.channel = (id, resourceId) => withCalls(made(original, "channel", bound, id, resourceId));
  bound.hmacKey = (accessId, options) => withCalls(made(original, "hmacKey", bound, accessId, options));
  withCalls(bound);
  bound.getBucketsStream = pagesStream(bound, "getBuckets_", "getBucketsStream", original);
  bound.getHmacKeysStream = pagesStream(bound, "getHmacKeys_", "getHmacKeysStream", original);
  return bound;
}

/** The object that the caller's method makes for the bound Storage. */
function made<K extends "channel" | "hmacKey">(
  original: Storage,
  method: K,
  bound: Storage,
  ...args: Parameters<Storage[K]>
): ReturnType<Storage[K]> {
  return Reflect.apply(original[method] as (...args: unknown[]) => ReturnType<Storage[K]>, bound, args);
}
