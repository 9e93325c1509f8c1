import { ObjectStoreError, throwIfAborted, untilAborted, type Call } from "@holdfast/object-store";
import type { ReferenceLie } from "./lies.js";
import type { Wire, WireAnswer, WireRequest } from "./wire.js";

/** What the methods of the suite's own client share: a wire, and the one lie that it may tell. */
export type Client = { readonly wire: Wire; readonly lie: ReferenceLie | undefined };

const attemptsMax = 3;

export const unavailable = (why: string, cause?: unknown): ObjectStoreError =>
  new ObjectStoreError("UNAVAILABLE", why, { cause });

export const corrupt = (why: string): ObjectStoreError => new ObjectStoreError("CORRUPT", why);

/** The answer to a request that may be sent again: throttled, failed and reset ones are, until the attempts are used up. */
export async function ask(client: Client, request: WireRequest, o: Call): Promise<WireAnswer> {
  let last: ObjectStoreError = unavailable("it was never asked");
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    throwIfAborted(o.signal);
    try {
      const answer = await untilAborted(client.wire(request), o.signal);
      if (answer.status < 500 && (answer.status >= 300 || answer.error === undefined)) return accepted(answer, request);
      last = unavailable(`${request.op} was answered ${answer.status} ${answer.error ?? ""}`);
    } catch (error) {
      if (error instanceof ObjectStoreError || o.signal.aborted) throw error;
      last = unavailable(`${request.op} was reset`, error);
    }
  }
  throw last;
}

function accepted(answer: WireAnswer, request: WireRequest): WireAnswer {
  const what = `${request.op} of ${JSON.stringify(request.key)}`;
  switch (answer.status) {
    case 403:
      throw new ObjectStoreError("ACCESS_DENIED", `${what} was refused`);
    case 412:
      throw new ObjectStoreError("PRECONDITION_FAILED", `${what}: it has another etag than the one asked for`);
    case 416:
      throw new ObjectStoreError("INVALID_RANGE", `${what}: the range is outside the object`);
    default:
      return answer;
  }
}

/** An etag without its quotes, also when the server forgot them. */
export const bare = (etag: string): string => etag.replace(/^(?:W\/)?"(.*)"$/, "$1");
