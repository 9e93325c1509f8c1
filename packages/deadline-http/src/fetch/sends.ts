import { AsyncLocalStorage } from "node:async_hooks";
import { subscribe } from "node:diagnostics_channel";
import type { Attempt } from "../call.js";

interface SendWatch {
  readonly attempt: Attempt;
  readonly secure: boolean;
  created: number;
  sent: boolean;
}

const watches = new AsyncLocalStorage<SendWatch>();
/** undici's own request objects -> the attempt that made them. */
const owners = new WeakMap<object, SendWatch>();
let subscribed = false;

const requestOf = (message: unknown): object | null =>
  typeof message === "object" && message !== null && "request" in message && typeof message.request === "object"
    ? message.request
    : null;

/** undici, in Node and from npm, tells when it makes a request and when it writes one to a connected socket. */
function subscribeOnce(): void {
  if (subscribed) return;
  subscribed = true;
  subscribe("undici:request:create", (message) => {
    const [request, watch] = [requestOf(message), watches.getStore()];
    if (!request || !watch) return;
    watch.created += 1;
    if (watch.secure) return;
    owners.set(request, watch);
    if (!watch.sent) watch.attempt.markSent(false);
  });
  subscribe("undici:client:sendHeaders", (message) => {
    const request = requestOf(message);
    const watch = request && owners.get(request);
    if (!watch) return;
    watch.sent = true;
    watch.attempt.markSent();
  });
}

/**
 * Runs one fetch and marks the attempt as sent when, and only when, undici writes it. A redirect's second request does
 * not undo the first. Over https a request may go out as HTTP/2, which is not told: it counts as sent from the start, as
 * does that of another fetch. `seen`: sending was watched. `requests`: how many undici made, 0 when this was another fetch.
 */
export function watchSends(
  attempt: Attempt,
  secure: boolean,
  run: () => Promise<Response>,
): { response: Promise<Response>; seen(): boolean; requests(): number } {
  attempt.markSent();
  subscribeOnce();
  const watch: SendWatch = { attempt, secure, created: 0, sent: false };
  return {
    response: watches.run(watch, run),
    seen: () => !secure && watch.created > 0,
    requests: () => watch.created,
  };
}
