import { subscribe } from "node:diagnostics_channel";
import { Socket } from "node:net";
import type { Attempt } from "../call.js";
import { setPermit } from "../node-http/pieces.js";
import { runWatched, watchHere } from "../registry.js";

class SendWatch {
  created = 0;
  /** A request was let out to a connected socket. */
  out = false;
  /** The newest request went out over HTTP/1. */
  http1 = false;

  constructor(
    readonly attempt: Attempt,
    readonly secure: boolean,
  ) {}
}

/** undici's own request objects -> the attempt that made them. */
const owners = new WeakMap<object, SendWatch>();
let subscribed = false;

const requestOf = (message: unknown): object | null =>
  typeof message === "object" && message !== null && "request" in message && typeof message.request === "object"
    ? message.request
    : null;

/** The socket, where it carries one request at a time. */
const socketOf = (message: unknown): Socket | null => {
  const socket: unknown = Reflect.get(message as object, "socket");
  return socket instanceof Socket && Reflect.get(socket, "alpnProtocol") !== "h2" ? socket : null;
};

/** undici, in Node and from npm, tells when it makes a request and when it writes one to a connected socket. */
function subscribeOnce(): void {
  if (subscribed) return;
  subscribed = true;
  subscribe("undici:request:create", (message) => {
    const [request, watch] = [requestOf(message), watchHere(SendWatch)];
    if (!request || !watch) return;
    watch.created += 1;
    watch.http1 = false;
    owners.set(request, watch);
    if (!watch.secure && !watch.out) watch.attempt.markSent(false);
  });
  subscribe("undici:client:sendHeaders", (message) => {
    const request = requestOf(message);
    if (!request) return;
    const watch = owners.get(request);
    const socket = socketOf(message);
    if (socket) setPermit(socket, watch ? () => watch.attempt.permit() : null);
    if (!watch) return;
    watch.out = true;
    watch.http1 = socket !== null;
    // On a socket of its own it counts as sent when its first piece may go (`permit`).
    if (!socket) watch.attempt.markSent();
  });
}

/**
 * Runs one fetch and marks the attempt as sent when, and only when, undici writes it. A redirect's second request does
 * not undo the first. Over https a request may go out as HTTP/2, which is not told: it counts as sent from the start, as
 * does that of another fetch. `seen`: sending was watched. `requests`: how many undici made, 0 when this was another fetch. `http1`: the
 * response is the answer to a request over HTTP/1.
 */
export function watchSends(
  attempt: Attempt,
  secure: boolean,
  run: () => Promise<Response>,
): { response: Promise<Response>; seen(): boolean; requests(): number; http1(): boolean } {
  attempt.markSent();
  subscribeOnce();
  const watch = new SendWatch(attempt, secure);
  return {
    response: runWatched(watch, run),
    seen: () => !secure && watch.created > 0,
    requests: () => watch.created,
    http1: () => watch.http1,
  };
}
