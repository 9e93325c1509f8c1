import { AsyncLocalStorage } from "node:async_hooks";
import { Agent, type ClientRequest } from "node:http";
import { subscribe } from "node:diagnostics_channel";
import type { Socket } from "node:net";

/** What an adapter wants to know of the requests that a vendor's client makes through `node:http` in one attempt. */
export interface RequestWatch {
  /** Ends the wait for a socket that is still connecting. */
  readonly signal: AbortSignal;
  /** False lets a request pass unwatched: a token refresh made in the same context is not the attempt's own request. */
  concerns(request: ClientRequest): boolean;
  /**
   * The request has a socket, connected and, for https, secured, and no byte of it has been written. True lets it out;
   * false means that the watch ended the attempt, and nothing is written.
   */
  onConnected(request: ClientRequest): boolean;
}

const watches = new AsyncLocalStorage<RequestWatch>();

/** Runs `fn`; every `node:http` request begun in its async context is held until its socket is usable, and told of. */
export function watchRequests<T>(watch: RequestWatch, fn: () => T): T {
  observe();
  return watches.run(watch, fn);
}

/**
 * Holds one request back from its socket. Node hands a request its socket through `onSocket`, possibly before that is
 * connected, and writes what the client has already put into it right after. So a request whose `onSocket` was not
 * passed on has written no byte, and that is the proof behind `not-sent`.
 */
export function holdRequest(request: ClientRequest, watch: Omit<RequestWatch, "concerns">): void {
  // Node's own signature; its types know of the case without error only.
  const own = request as { onSocket(socket: Socket | null, error?: Error): void };
  const give = own.onSocket.bind(request);
  own.onSocket = (socket, error): void => {
    if (error || !socket) {
      give(socket, error);
      return;
    }
    whenUsable(socket, watch.signal, (problem) => {
      if (problem) {
        give(socket, problem);
        return;
      }
      // One that was ended meanwhile still gets its socket: Node then gives that back to the pool, unused.
      if (!request.destroyed && !watch.onConnected(request)) request.destroy(endedWhileHeld());
      give(socket);
    });
  };
}

const endedWhileHeld = (): Error => new Error("the attempt was ended before its request was sent");

function whenUsable(
  socket: Socket & { readonly secureConnecting?: boolean },
  signal: AbortSignal,
  use: (problem?: Error) => void,
): void {
  const event = socket.secureConnecting === true ? "secureConnect" : socket.connecting ? "connect" : null;
  if (event === null || socket.destroyed) {
    use();
    return;
  }
  const done = (problem?: Error): void => {
    socket.off(event, usable).off("error", done).off("close", closed);
    signal.removeEventListener("abort", aborted);
    use(problem);
  };
  const usable = (): void => done();
  const closed = (): void => done(new Error("the connection closed before it stood"));
  const aborted = (): void => done(endedWhileHeld());
  socket.once(event, usable).once("error", done).once("close", closed);
  signal.addEventListener("abort", aborted, { once: true });
}

let observed = false;

/** Node 22 tells of every request before it asks its agent for a socket; Node 20 does not, and is helped out (ADR-0005). */
function observe(): void {
  if (observed) return;
  observed = true;
  const meet = (request: ClientRequest): void => {
    const watch = watches.getStore();
    if (watch?.concerns(request)) holdRequest(request, watch);
  };
  if (nodeTells())
    subscribe("http.client.request.created", (message) => meet((message as { request: ClientRequest }).request));
  else beforeAddRequest(meet);
}

function nodeTells(): boolean {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  return major > 22 || (major === 22 && minor >= 12);
}

/** Every agent of `node:http` and `node:https` takes its requests through this method. */
function beforeAddRequest(meet: (request: ClientRequest) => void): void {
  const prototype = Agent.prototype as unknown as { addRequest(request: ClientRequest, ...rest: unknown[]): void };
  const { addRequest } = prototype;
  prototype.addRequest = function (this: unknown, request, ...rest) {
    meet(request);
    addRequest.call(this, request, ...rest);
  };
}
