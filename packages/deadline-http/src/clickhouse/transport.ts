import type { ClientRequest } from "node:http";
import type { Socket } from "node:net";
import type { Permit } from "../call.js";
import { endAbandoned, writeUnder } from "../node-http/hold.js";
import { runWatched, watchHere } from "../registry.js";
import { paramsOf, socketPoolOf, type VendorConnection } from "./vendor.js";

/** What the adapter wants to know of the one request of an attempt. */
export interface Watcher {
  /**
   * The socket is connected and, for https, secured, and nothing of the request has been written. Answers query
   * parameters to set in the request's address, or null to let nothing out (the watcher ended the attempt then).
   */
  onConnected(): Readonly<Record<string, string>> | null;
  /** Asked before each piece that is written of the request. */
  permit(): Permit;
  /** The attempt was ended here: what the vendor then logs as an error is no news. */
  ended(): Error | null;
  /** The client's own limit ran out: no byte moved for so long, be it while connecting, or in the answer. */
  onIdle(): void;
  onAnswer(status: number, headers: Readonly<Record<string, string | string[] | undefined>>): void;
}

/** The one request of an attempt, from before it exists until its connection is done with. */
class Watched {
  #request: ClientRequest | null = null;
  #held = true;

  constructor(readonly watcher: Watcher) {}

  meet(create: () => ClientRequest): ClientRequest {
    const ended = this.watcher.ended();
    if (ended) throw ended;
    const request = create();
    this.#request = request;
    this.#holdBack(request);
    this.#keepLimit(request);
    request.once("response", (response) => {
      this.watcher.onAnswer(response.statusCode ?? 0, response.headers);
      endAbandoned(request, response);
    });
    return request;
  }

  /**
   * The vendor writes the request when the `socket` event comes, which Node emits a tick after a socket is assigned,
   * possibly before it is connected. That event is held back until it is. So a request that was never let go wrote no
   * byte, and until then its address can still carry what is computed last.
   */
  #holdBack(request: ClientRequest): void {
    const emit = request.emit.bind(request);
    request.emit = (event: string | symbol, ...args: unknown[]): boolean => {
      if (event !== "socket") return emit(event, ...args);
      request.emit = emit;
      const socket = args[0] as Socket;
      whenUsable(socket, () => {
        if (request.destroyed) return;
        const extra = this.watcher.onConnected();
        if (!extra) return;
        if (!request.headersSent) request.path = withParameters(request.path, extra);
        this.#held = false;
        writeUnder(() => this.watcher.permit(), request, socket);
        emit("socket", socket);
      });
      return true;
    };
  }

  /**
   * The vendor looks for its `request_timeout` on the socket that it is told of, so until then it is kept here; after
   * that the vendor ends the request, and in a body that looks like any other break.
   */
  #keepLimit(request: ClientRequest): void {
    request.once("timeout", () => {
      this.watcher.onIdle();
      if (this.#held) request.destroy(new Error("no connection within the client's request_timeout"));
    });
  }

  destroy(error: Error): void {
    this.#request?.destroy(error);
  }
}

/**
 * The vendor's connection (its agent, its sockets, its log) with the requests of each attempt watched; the caller's is
 * not changed. One for each bound client: which attempt a request belongs to, its async context tells.
 */
export class Transport {
  constructor(readonly connection: VendorConnection) {}

  /** Null when this connection is not the vendor's own: nothing can be watched then. */
  static over(connection: VendorConnection): Transport | null {
    const pool = socketPoolOf(connection);
    if (!pool) return null;
    const createClientRequest = (params: unknown): ClientRequest => {
      const create = (): ClientRequest => pool.createClientRequest(params);
      return watchHere(Watched)?.meet(create) ?? create();
    };
    const own = quietParams(connection);
    const ownPool = Object.create(pool, { createClientRequest: { value: createClientRequest }, ...own }) as object;
    return new Transport(Object.create(connection, { socketPool: { value: ownPool }, ...own }) as VendorConnection);
  }

  /** Runs one attempt; `onEnd` is given what destroys its request. */
  run<T>(
    watcher: Watcher,
    onEnd: (destroy: (error: Error) => void) => void,
    attempt: (connection: VendorConnection) => Promise<T>,
  ): Promise<T> {
    const watched = new Watched(watcher);
    onEnd((error) => watched.destroy(error));
    return runWatched(watched, () => attempt(this.connection));
  }
}

/** The connection's parameters, with a log writer that leaves out errors of attempts that were ended from here. */
function quietParams(connection: VendorConnection): PropertyDescriptorMap {
  const params = paramsOf(connection);
  if (!params) return {};
  const writer = params.log_writer;
  const error = (entry: unknown): void => {
    if (!watchHere(Watched)?.watcher.ended()) writer.error(entry);
  };
  const ownWriter: unknown = Object.create(writer, { error: { value: error } });
  return { params: { value: Object.create(params, { log_writer: { value: ownWriter } }) as unknown } };
}

function whenUsable(socket: Socket & { readonly secureConnecting?: boolean }, use: () => void): void {
  // One that failed already will say so through the request.
  if (socket.destroyed) return;
  if (socket.secureConnecting === true) socket.once("secureConnect", use);
  else if (socket.connecting) socket.once("connect", use);
  else use();
}

function withParameters(path: string, extra: Readonly<Record<string, string>>): string {
  const names = Object.keys(extra);
  if (names.length === 0) return path;
  const url = new URL(path, "http://any");
  for (const name of names) url.searchParams.set(name, extra[name] ?? "");
  return url.pathname + url.search;
}
