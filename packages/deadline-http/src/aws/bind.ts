import { checkMs, type Clock } from "../clock.js";
import { ConfigError } from "../errors.js";
import { systemClock } from "../registry.js";
import { boundHandler, type Runs } from "./handler.js";
import { Sending, type SendRules } from "./sending.js";
import { internalsOf, withoutRetries, type VendorHandler } from "./vendor.js";

/** A client of the AWS SDK v3, as far as {@link bind} asks. */
export interface AwsClient {
  readonly config: object;
  readonly middlewareStack: object;
  send(command: never): unknown;
  destroy(): void;
}

/** Options of {@link bind}. */
export interface BindOptions {
  /** Default: the machine's clock. */
  readonly clock?: Clock | undefined;
  /**
   * A bound of every call, from its beginning to the last byte of its body, credentials, attempts and pauses included;
   * the tighter of this and the scopes in force binds. Default: none, so that outside a scope only the client's own
   * limits hold.
   */
  readonly requestTimeoutMs?: number | undefined;
  /** Attempts of one call, the first included. Default 3. Takes the place of the client's own `maxAttempts`. */
  readonly maxAttempts?: number | undefined;
}

/** Bound clients -> the caller's, so that binding a bound client does not nest. */
const originals = new WeakMap<object, object>();

/**
 * The same client, of the same type, whose commands obey the scopes they are sent in, end by their bound (credentials,
 * signing and bodies included), are retried as far as that is safe, and fail with an error that carries `code`,
 * `timedOut`, `outcome` and `httpStatus`. An error that the service answered keeps the vendor's `name`, `$metadata` and
 * `$fault`, so that `error.name === "NoSuchKey"`, `instanceof NoSuchKey` and the SDK's waiters go on working; the vendor's
 * own error is its `cause`.
 *
 * It shares configuration, credentials and sockets with `client`, which stays as it is; `destroy()` closes them for both.
 * Middleware is shared as it is at this moment; what is added to one of them later is not seen by the other. The
 * client's own retries (`maxAttempts`, `retryMode`, `retryStrategy`) do not apply to the bound one.
 *
 * `GET` and `HEAD` requests are reads, all others writes. A body that can be read once only (a stream) is sent again only
 * when nothing has been taken from it. Bodies of answers have to be read inside the scope. `abortSignal` ends a call
 * with `CANCELED`.
 *
 * Not-sent is proved for the SDK's `NodeHttpHandler`; for another `requestHandler` only by error codes.
 *
 * Errors: `CONFIG_INVALID` for an option that cannot work; a TypeError for something that is no client of the AWS SDK v3.
 */
export function bind<C extends AwsClient>(client: C, o: BindOptions = {}): C {
  const { maxAttempts = 3, requestTimeoutMs = null } = o;
  if (requestTimeoutMs !== null) checkMs("requestTimeoutMs", requestTimeoutMs);
  if (!Number.isInteger(maxAttempts) || maxAttempts < 1) {
    throw new ConfigError(`maxAttempts is ${maxAttempts}; give a whole number of at least 1`);
  }
  const original = originals.get(client) ?? client;
  const inner = internalsOf(original);
  const runs: Runs = new WeakMap();
  const handler = boundHandler(() => inner.config.requestHandler, runs);
  const bound: unknown = Object.create(original, {
    config: { value: configWith(inner.config, handler) },
    middlewareStack: { value: withoutRetries(internalsOf(client).middlewareStack) },
    send: {
      value: (command: object, ...rest: SendArguments) => send(command, rest),
    },
  });
  originals.set(bound as C, original);
  const rules: SendRules = {
    clock: o.clock ?? systemClock,
    requestTimeoutMs,
    maxAttempts,
    runs,
    // The vendor's own, whatever it is by now: tracing tools replace it on the class.
    send: (command, options) => internalsOf(original).send.call(bound as C, command, options),
  };
  const send = (command: object, rest: SendArguments): Promise<unknown> | undefined => {
    const [first, second] = rest;
    const result = new Sending(rules, command, (isCallback(first) ? null : first) ?? {}).run();
    const callback = isCallback(first) ? first : second;
    if (!callback) return result;
    // As the vendor: what a callback throws is lost.
    result
      .then(
        (output) => callback(null, output),
        (error: unknown) => callback(error),
      )
      .catch(() => undefined);
    return undefined;
  };
  return bound as C;
}

type Callback = (error: unknown, output?: unknown) => void;
const isCallback = (value: object | undefined): value is Callback => typeof value === "function";

type SendArguments = [options?: object | Callback, callback?: Callback];

/** The caller's configuration itself, live, but for the transport; a copy would miss what the SDK corrects, as its clock. */
function configWith<T extends object>(config: T, requestHandler: VendorHandler): T {
  return new Proxy(config, {
    get: (target, key): unknown => (key === "requestHandler" ? requestHandler : Reflect.get(target, key)),
  });
}
