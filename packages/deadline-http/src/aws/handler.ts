import type { ClientRequest, IncomingMessage } from "node:http";
import type { Attempt } from "../call.js";
import { unprovedEnd } from "../node-http/body-end.js";
import { watchRequests } from "../node-http/hold.js";
import type { VendorHandler, VendorRequest, VendorResponse, VendorSendOptions } from "./vendor.js";

/** The signal that an attempt gives to the vendor -> the attempt: it comes back with each request of it. */
export type Runs = WeakMap<object, Run>;

/** What was seen of one attempt. */
export class Run {
  /** Requests that the vendor made for it: more than one after a redirect to another region. */
  requests = 0;
  /** The newest of them. */
  request: VendorRequest | null = null;
  /** Its answer, as it came: the SDK turns a 200 with an error in it into a 503. */
  status: number | undefined;
  body: unknown;
  /** Sending was watched, so an attempt whose request was not let out is proved not-sent. */
  watched = false;
  #letOut = false;
  #over = false;
  #onWire: ClientRequest | null = null;

  constructor(readonly attempt: Attempt) {}

  async handle(
    inner: VendorHandler,
    request: VendorRequest,
    options: VendorSendOptions,
  ): Promise<{ response: VendorResponse }> {
    this.requests += 1;
    this.request = request;
    this.status = undefined;
    // Late credentials: their request is begun when nobody waits for it any more.
    if (!this.#begin()) throw new Error("the attempt was ended before its request was sent");
    // Until it is known to go through node:http.
    this.attempt.markSent();
    const watch = {
      signal: this.attempt.signal,
      concerns: (wire: ClientRequest) => this.#meet(wire, request),
      onConnected: () => this.#goOut(),
      permit: () => this.attempt.permit(),
    };
    const result = await watchRequests(watch, () => inner.handle(request, options));
    this.status = result.response.statusCode;
    this.body = result.response.body;
    this.#checkEnd(request);
    return result;
  }

  /** The attempt failed: a half-written request would keep its socket, and the caller's stream, for ever. */
  giveUp(): void {
    this.#over = true;
    if (this.#onWire && !this.#onWire.writableFinished) this.#onWire.destroy();
  }

  #begin(): boolean {
    if (this.#over) return false;
    try {
      this.attempt.start();
      return true;
    } catch (error) {
      this.attempt.fail(error);
      return false;
    }
  }

  /** Before anything is read of the body: the vendor would parse, or hand out, a part of it as the whole. */
  #checkEnd({ method }: VendorRequest): void {
    const { body } = this;
    if (!isHttp1(body)) return;
    const { "content-length": contentLength, "transfer-encoding": transferEncoding } = body.headers;
    const flaw = unprovedEnd(method, this.status ?? 0, { contentLength, transferEncoding });
    if (!flaw) return;
    body.destroy();
    throw flaw;
  }

  /** Told apart from other requests in the same context by what nobody else's has: the signature. */
  #meet(wire: ClientRequest, request: VendorRequest): boolean {
    const own =
      wire.method === request.method &&
      wire.path.startsWith(request.path) &&
      wire.getHeader("authorization") === headerOf(request, "authorization");
    if (!own) return false;
    this.#onWire = wire;
    this.watched = true;
    // What went before a redirect to another region was sent.
    if (!this.#letOut && this.requests === 1) this.attempt.markSent(false);
    return true;
  }

  #goOut(): boolean {
    if (!this.#begin()) return false;
    this.#letOut = true;
    return true;
  }
}

/** The answer as node:http gives it; that of HTTP/2, or of another transport, tells the end of its body in its own way. */
const isHttp1 = (body: unknown): body is IncomingMessage =>
  typeof body === "object" && body !== null && "httpVersionMajor" in body && body.httpVersionMajor === 1;

export function headerOf(request: VendorRequest, name: string): string | undefined {
  for (const [key, value] of Object.entries(request.headers)) if (key.toLowerCase() === name) return value;
  return undefined;
}

/** The client's transport, with the requests of bound attempts watched; all others pass. */
export function boundHandler(inner: () => VendorHandler, runs: Runs): VendorHandler {
  const handle: VendorHandler["handle"] = (request, options) => {
    const run = options && runs.get(options.abortSignal as object);
    return run ? run.handle(inner(), request, options) : inner().handle(request, options);
  };
  // Its settings are the original's: a call through here would otherwise change this object alone.
  return Object.create(inner(), {
    handle: { value: handle },
    destroy: { value: () => inner().destroy?.() },
    updateHttpClientConfig: { value: (key: never, value: never) => inner().updateHttpClientConfig?.(key, value) },
    httpHandlerConfigs: { value: () => inner().httpHandlerConfigs?.() ?? {} },
  }) as VendorHandler;
}
