import type { ClientRequest } from "node:http";
import type { Clock } from "../clock.js";
import { ConfigError } from "../errors.js";
import { watchRequests } from "../node-http/hold.js";
import { frames } from "../registry.js";
import { detached } from "../scope.js";
import { currentOperation } from "./operation.js";
import type { AuthClient, HeaderSource, RequestOptions } from "./vendor.js";

/** Told how a request came by its credentials; found by the options object that the vendor passes along. */
export interface Authorized {
  granted(): void;
  failed(error: unknown): void;
}

export interface TokenRules {
  readonly clock: Clock;
  readonly tokenTimeoutMs: number;
  readonly waiting: WeakMap<object, Authorized>;
}

/** Methods of the vendor's auth client that may go to the network, for a token or a signature. */
const mayFetch = new Set([
  "getAccessToken",
  "getClient",
  "getCredentials",
  "getIdTokenClient",
  "getProjectId",
  "getRequestHeaders",
  "getUniverseDomain",
  "sign",
]);

/**
 * The vendor's auth client with its fetches detached: they are shared between calls, so no caller's deadline cuts one; a
 * caller waits for it no longer than its own, and then nothing was sent.
 */
export function detachedAuth(auth: AuthClient, rules: TokenRules): AuthClient {
  const tokens = new Tokens(auth, rules);
  return new Proxy(auth, {
    get(target, name) {
      if (name === "authorizeRequest") return (options: RequestOptions) => tokens.authorize(options);
      if (name === "request") return refuse;
      const value: unknown = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      const call = (...args: unknown[]): unknown => Reflect.apply(value, target, args);
      if (typeof name === "string" && mayFetch.has(name)) {
        return (...args: unknown[]) => {
          const operation = currentOperation();
          // The vendor makes an error of its own of this one, as in getSignedUrl().
          return detached(() => Promise.resolve(call(...args))).catch((error: unknown) => {
            throw operation?.raised(error as Error) ?? error;
          });
        };
      }
      return call;
    },
  });
}

const refuse = (): Promise<never> => {
  const error = new ConfigError(
    "a request made straight through the auth client of a bound Storage (as TransferManager.uploadFileInChunks does) " +
      "has no bound; use file.save(), file.createWriteStream() or bucket.upload(), or a Storage that is not bound",
  );
  return Promise.reject(error);
};

class Tokens {
  readonly #flights = new WeakMap<HeaderSource, Promise<object>>();
  /** Requests for tokens that are on their way. */
  readonly #requests = new Set<ClientRequest>();

  constructor(
    readonly auth: AuthClient,
    readonly rules: TokenRules,
  ) {}

  async authorize(options: RequestOptions): Promise<RequestOptions> {
    const waiting = this.rules.waiting.get(options);
    try {
      const url = options.url ?? options.uri;
      const headers = await frames.run(undefined, () => this.#headers(url));
      options.headers = { ...options.headers, ...plain(headers) };
      waiting?.granted();
      return options;
    } catch (error) {
      waiting?.failed(error);
      throw error;
    }
  }

  /** One fetch at a time per source: a second caller joins the one that runs. */
  async #headers(url: string | undefined): Promise<object> {
    const source = await this.#bounded(() => this.auth.getClient());
    // Headers that a service account signs itself may name the address; it shares its fetches itself.
    if ("createGToken" in source) return this.#bounded(() => source.getRequestHeaders(url));
    const running = this.#flights.get(source);
    if (running) return running;
    const flight = this.#bounded(() => source.getRequestHeaders(url));
    this.#flights.set(source, flight);
    const over = (): void => void this.#flights.delete(source);
    flight.then(over, over);
    return flight;
  }

  /**
   * The work under its own bound. Then the requests that run are destroyed, whoever began them: the vendor's client joins
   * callers by itself as well, and repeats, so that a dead request would hold up the next caller.
   */
  async #bounded<T>(fetch: () => Promise<T>): Promise<T> {
    const { clock, tokenTimeoutMs } = this.rules;
    return new Promise<T>((resolve, reject) => {
      const expire = (): void => {
        const error = new Error(`no token within ${tokenTimeoutMs} ms (tokenTimeoutMs)`);
        reject(error);
        for (const request of this.#requests) request.destroy(error);
      };
      const timer = clock.setTimer(tokenTimeoutMs, expire, { unref: true });
      watchRequests(
        { signal: neverAborted, concerns: this.#meet, onConnected: () => true, permit: () => "go-on" },
        fetch,
      )
        .finally(() => timer.cancel())
        .then(resolve, reject);
    });
  }

  readonly #meet = (request: ClientRequest): boolean => {
    this.#requests.add(request);
    request.once("close", () => this.#requests.delete(request));
    return true;
  };
}

const neverAborted = new AbortController().signal;

const plain = (headers: object): Record<string, string> =>
  headers instanceof Headers ? Object.fromEntries(headers) : (headers as Record<string, string>);
