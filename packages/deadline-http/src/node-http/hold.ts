import { Agent, type ClientRequest, type IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import type { Permit } from "../call.js";
import { runWatched, watchHere } from "../registry.js";
import { dropPermit, setPermit } from "./pieces.js";

/** What an adapter wants to know of the requests that a vendor's client makes through `node:http` in one attempt. */
export interface RequestWatch {
  /** Ends the wait for a socket that is still connecting; not needed by who destroys the request itself. */
  readonly signal?: AbortSignal;
  /** False lets a request pass unwatched: a token refresh made in the same context is not the attempt's own request. */
  concerns(request: ClientRequest): boolean;
  /**
   * The request has a socket, connected and, for https, secured, and no byte of it has been written. True lets it out;
   * false means that the watch ended the attempt, and nothing is written. It may run in another async context.
   */
  onConnected(request: ClientRequest): boolean;
  /** Asked before each piece that is written of a request that was let out. */
  permit(): Permit;
}

/** What tells this kind of watch from that of another adapter in the same async context. */
class Holding {
  constructor(readonly watch: RequestWatch) {}
}

/** Runs `fn`; every `node:http` request begun in its async context is held until its socket is usable, and told of. */
export function watchRequests<T>(watch: RequestWatch, fn: () => T): T {
  observe();
  return runWatched(new Holding(watch), fn);
}

/**
 * Holds one request back from its socket. Node hands a request its socket through `onSocket`, possibly before that is
 * connected, and writes what the client has already put into it right after. So a request whose `onSocket` was not
 * passed on has written no byte, and that is the proof behind `not-sent` (ADR-0005).
 *
 * A request that is destroyed while its socket connects takes that socket with it, as Node does; one that is destroyed
 * when it gets a connected one gives it back to the pool unused.
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
    whenUsable(socket, request, watch.signal, (problem) => {
      if (problem) {
        // Given away with the problem alone, as by an agent that could make none: Node 24 waits for ever for the end of a
        // socket that has ended already.
        socket.destroy();
        give(null, problem);
        return;
      }
      if (!request.destroyed) {
        if (watch.onConnected(request)) writeUnder(() => watch.permit(), request, socket);
        else request.destroy(endedWhileHeld());
      }
      give(socket);
    });
  };
}

/** Binds what the request writes to `socket`, from here to its end, to the permit. */
export function writeUnder(permit: () => Permit, request: ClientRequest, socket: Socket): void {
  setPermit(socket, permit);
  // Comes before the socket goes back to its pool.
  request.once("close", () => dropPermit(socket, permit));
}

/**
 * For clients that stop writing a streamed body when its answer comes, and leave its connection neither free nor closed. A turn later, since
 * they may end it yet. One that was ended is left alone: that the socket took its end may be told after the answer.
 */
export function endAbandoned(request: ClientRequest, answer: IncomingMessage): void {
  answer.once("close", () => {
    setImmediate(() => {
      if (!request.writableEnded) request.destroy();
    });
  });
}

const endedWhileHeld = (): Error => new Error("the attempt was ended before its request was sent");

/** The code is Node's own for it. */
const closedEarly = (): Error =>
  Object.assign(new Error("the connection closed before it stood"), { code: "ECONNRESET" });

const ignore = (): void => undefined;

/** Node listens to the socket from the next tick on; an error before that would have no listener and end the process. */
function coverOneTick(socket: Socket): void {
  socket.on("error", ignore);
  process.nextTick(() => process.nextTick(() => socket.off("error", ignore)));
}

function whenUsable(
  socket: Socket & { readonly secureConnecting?: boolean },
  request: ClientRequest,
  signal: AbortSignal | undefined,
  use: (problem?: Error) => void,
): void {
  const event = socket.secureConnecting === true ? "secureConnect" : socket.connecting ? "connect" : null;
  if (socket.destroyed) {
    coverOneTick(socket);
    use(closedEarly());
    return;
  }
  if (event === null) {
    use();
    return;
  }
  if (request.destroyed || signal?.aborted === true) {
    use(endedWhileHeld());
    return;
  }
  let waiting = true;
  const destroy = request.destroy.bind(request);
  const done = (problem?: Error): void => {
    socket.off(event, usable).off("error", done).off("close", closed);
    signal?.removeEventListener("abort", aborted);
    waiting = false;
    coverOneTick(socket);
    use(problem);
  };
  const usable = (): void => done();
  const closed = (): void => done(closedEarly());
  const aborted = (): void => done(endedWhileHeld());
  socket.once(event, usable).once("error", done).once("close", closed);
  signal?.addEventListener("abort", aborted, { once: true });
  // Without a socket of its own a request that is destroyed, by a time limit of its client say, tells nobody.
  request.destroy = (error?: Error): ClientRequest => {
    destroy(error);
    if (waiting) done(error ?? endedWhileHeld());
    return request;
  };
}

let observed = false;

/**
 * Every agent of `node:http` and `node:https` takes its requests through this method, before it gives them a socket.
 * Node's own diagnostics channel for new requests will not do: it tells after that (ADR-0005).
 */
function observe(): void {
  if (observed) return;
  observed = true;
  const prototype = Agent.prototype as unknown as {
    addRequest: (this: unknown, request: ClientRequest, ...rest: unknown[]) => void;
  };
  const { addRequest } = prototype;
  prototype.addRequest = function (this: unknown, request, ...rest) {
    const watch = watchHere(Holding)?.watch;
    if (watch?.concerns(request)) holdRequest(request, watch);
    addRequest.call(this, request, ...rest);
  };
}
