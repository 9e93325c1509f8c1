import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import { graver, RequestError, type Outcome } from "../errors.js";
import { redacted } from "./redact.js";

/** Errors of the vendor, which its own code goes on to look at (a 404 is no failure of `exists()`), and what they mean here. */
const meanings = new WeakMap<object, Error>();

export function means(vendorError: object, error: Error): void {
  meanings.set(vendorError, error);
}

/** One call of a public method, or one stream: it may be several requests, and its outcome is that of the gravest. */
export class Operation {
  #over: Outcome = "not-sent";
  #flying = 0;
  #requests = 0;
  /** A deadline, a signal or the end of a scope cut a request of it: that ended the call, whatever the vendor makes of it. */
  #cut: Error | null = null;

  /** A request of it was handed to a connected socket. */
  begin(): void {
    this.#requests += 1;
    this.#flying += 1;
  }

  end(outcome: Outcome): void {
    this.#flying -= 1;
    this.raise(outcome);
  }

  raise(outcome: Outcome): void {
    this.#over = graver(this.#over, outcome);
  }

  outcome(): Outcome {
    return this.#flying > 0 ? "unknown" : this.#over;
  }

  /** The error with the outcome of the whole call. */
  raised(error: Error & { readonly outcome?: Outcome }): Error {
    if (isOurs(error) && error.code !== "REQUEST_FAILED") this.#cut = error;
    const own = error.outcome;
    if (own === undefined) return error;
    this.raise(own);
    const outcome = this.#over;
    if (outcome === own) return error;
    const message = `${error.message}; of the whole call, which made an earlier request: outcome ${outcome}`;
    return Object.defineProperties(error, {
      outcome: { value: outcome, enumerable: true },
      message: { value: message },
    });
  }

  /** What the caller is to see of an error that comes out of the vendor's code. */
  translate(error: unknown): unknown {
    if (typeof error !== "object" || error === null || isOurs(error)) return error;
    const meant = meanings.get(error) ?? this.#cut;
    if (meant) return meant;
    // One that the vendor raised itself. Before any request it is about the arguments, and stays as it is.
    if (this.#requests === 0) return error;
    if (Array.isArray(error)) return this.#several(error);
    const cause = redacted(error);
    return new RequestError(cause.message, { outcome: this.outcome(), cause });
  }

  /** Of a call that goes on after an error, as `deleteFiles({ force: true })` does. */
  #several(errors: readonly unknown[]): Error {
    const all = errors.map((one) => this.translate(one));
    const text = `${all.length} requests failed, the first: ${all[0] instanceof Error ? all[0].message : String(all[0])}`;
    return new RequestError(text, { outcome: this.outcome(), cause: new AggregateError(all) });
  }
}

const ours = new Set<unknown>(["DEADLINE_EXCEEDED", "CANCELED", "SCOPE_CLOSED", "LEASE_LOST", "REQUEST_FAILED"]);

/** By its code: the scope that ended a request may be of another copy of this package, with classes of its own. */
export const isOurs = (error: unknown): error is Error & { readonly code: string; readonly outcome: Outcome } =>
  error instanceof Error && "code" in error && "outcome" in error && ours.has(error.code);

const operations = new AsyncLocalStorage<Operation | undefined>();

export const currentOperation = (): Operation | undefined => operations.getStore();

/** Runs `fn` as a part of this call; of none with undefined. */
export const inOperation = <T>(operation: Operation | undefined, fn: () => T): T => operations.run(operation, fn);

type Callback = (error: unknown, ...rest: unknown[]) => unknown;

/**
 * Runs a public method as one call, unless it is a part of another: the vendor's methods use each other. Errors are
 * translated where they leave the call; a callback runs in the async context that it was given in.
 */
export function asOneCall(fn: (...args: unknown[]) => unknown, self: unknown, args: unknown[]): unknown {
  if (operations.getStore()) return Reflect.apply(fn, self, args);
  const operation = new Operation();
  const last = args.at(-1);
  const given = args.map((one) => (typeof one === "function" ? AsyncResource.bind(one as Callback) : one));
  if (typeof last === "function") {
    const callback = given.at(-1) as Callback;
    given[given.length - 1] = (error: unknown, ...rest: unknown[]) =>
      callback(error ? operation.translate(error) : error, ...rest);
  }
  const result = operations.run(operation, () => Reflect.apply(fn, self, given));
  if (!(result instanceof Promise)) return result;
  return result.catch((error: unknown) => {
    throw operation.translate(error);
  });
}
