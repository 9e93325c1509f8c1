import type { ClientRequest, IncomingMessage } from "node:http";
import type { Attempt, Permit } from "../call.js";
import { unprovedEnd } from "../node-http/body-end.js";
import { endAbandoned, watchRequests } from "../node-http/hold.js";
import type { Operation } from "./operation.js";

/** One attempt on its way through the vendor's client: what is known of the `node:http` requests it becomes. */
export class Send {
  status: number | undefined;
  /** A request was handed to a connected socket: from then on not-sent is out of the question. */
  connected = false;
  /** Credentials were asked for, and that failed. */
  unauthorized = false;
  /** A request was made and is held back, or was let out. */
  seen = false;
  /** Told when the request goes out, to open its body. */
  onOut: (() => void) | null = null;
  /** Told when the connection goes before the end of the answer: the vendor's client does not always notice. */
  onBroken: ((error: Error) => void) | null = null;
  /** Told when the attempt failed or was ended: what it was to send is let go. */
  onFailed: (() => void) | null = null;
  /** The answer's body cannot prove its end: what came of it is not to be used. */
  flaw: Error | null = null;
  #answer: IncomingMessage | null = null;
  readonly #requests = new Set<ClientRequest>();

  constructor(
    readonly attempt: Attempt,
    readonly host: string,
    readonly operation: Operation,
  ) {}

  /** Runs the vendor's client. Requests to other hosts (tokens, signatures) are none of the attempt's. */
  run<T>(go: () => T): T {
    const { signal } = this.attempt;
    signal.addEventListener("abort", () => this.stop(), { once: true });
    const concerns = (request: ClientRequest): boolean => this.#meet(request);
    const onConnected = (): boolean => this.#goOut();
    const permit = (): Permit => this.attempt.permit();
    return watchRequests({ signal, concerns, onConnected, permit }, go);
  }

  /**
   * From here on a request may be made that is not seen (an agent that is not Node's own, as for a proxy): it counts as
   * sent until it is seen, and held back.
   */
  presumeSent(): void {
    this.attempt.markSent();
  }

  /** The body that was read is all of the answer's. */
  complete(): boolean {
    return this.flaw === null && (this.#answer?.complete ?? true);
  }

  /** Ends what is on its way, and nothing else: the sockets of other requests stay. */
  stop(error?: Error): void {
    this.onFailed?.();
    for (const request of this.#requests) request.destroy(error);
  }

  over(outcome: Parameters<Operation["end"]>[0]): void {
    if (this.connected) this.operation.end(outcome);
    else this.operation.raise(outcome);
  }

  #meet(request: ClientRequest): boolean {
    if (hostOf(request) !== this.host) return false;
    this.#requests.add(request);
    this.seen = true;
    request.once("response", (answer) => {
      this.#answer = answer;
      this.status = answer.statusCode;
      const { "content-length": contentLength, "transfer-encoding": transferEncoding } = answer.headers;
      this.flaw = unprovedEnd(request.method, answer.statusCode ?? 0, { contentLength, transferEncoding });
      endAbandoned(request, answer);
      answer.once("close", () => {
        if (!answer.complete) this.onBroken?.(new Error("the connection closed before the end of the answer"));
      });
    });
    // The second request, of a redirect, does not undo the first.
    if (!this.connected) this.attempt.markSent(false);
    return true;
  }

  #goOut(): boolean {
    try {
      this.attempt.start();
    } catch (error) {
      this.attempt.fail(error);
      return false;
    }
    if (!this.connected) this.operation.begin();
    this.connected = true;
    this.onOut?.();
    return true;
  }
}

const hostOf = (request: ClientRequest): string => {
  const named = request.getHeader("host");
  return typeof named === "string" ? named : request.host;
};
