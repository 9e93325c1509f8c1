import type { Readable } from "node:stream";
import { within } from "@holdfast/deadline-http";
import { abortError, asError, onAbort } from "@holdfast/object-store";
import { failureOf, nothingStored, type Asked, type Failure } from "./failure.js";
import type { Settings } from "./options.js";
import { forgetToken, heldToken } from "./token.js";

/** A request's result, or what its failure means. */
export type Attempted<T> = { readonly value: T; readonly failure?: undefined } | { readonly failure: Failure };

/** How far a write has come; `stored` is `"maybe"` from the moment in which a request that could store something is begun. */
export type Progress = { stored: "no" | "maybe" };

/** One request: what it is for people, and what it carries. */
export type Request = {
  readonly what: string;
  readonly signal: AbortSignal;
  readonly method: "GET" | "POST" | "PUT" | "DELETE";
  readonly address: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** What is sent: all of it at once, or opened again for each attempt. */
  readonly body?: Buffer | string | (() => OpenedParts);
  readonly absent: Asked["absent"];
  readonly conditional?: boolean;
  readonly progress?: Progress;
};

/** The two parts of an upload in one request. */
export type OpenedParts = {
  readonly parts: readonly [Part<string>, Part<Readable>];
  /** Why the source of the bytes failed, if it did: then the request cannot have been whole. */
  readonly failed: () => Error | undefined;
  readonly close: () => void;
};
type Part<T> = { readonly "Content-Type": string; readonly body: T };

/** An answer: `value` is what its body says, as JSON or as text. */
export type Answer = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly value: unknown;
};
/** An answer whose body is still to be read. */
export type Media = Omit<Answer, "value"> & { readonly body: Readable };

type Options = Readonly<Record<string, unknown>> & { readonly uri: string };
type Told = { readonly statusCode?: number; readonly headers?: Answer["headers"] };
/** What is used of the vendor's client: two methods of the class that its Storage is derived from. */
type Wire = {
  request(o: Options, done: (error: unknown, body?: unknown, answer?: Told | null) => void): void;
  requestStream(o: Options): Readable;
};
const wireOf = (s: Settings): Wire => s.client;

/**
 * Sends one request and reports what became of it; never rejects. Ends when the signal is aborted, and its socket with it. A token that the
 * server no longer takes is fetched again, once. 308, by which an upload session asks for more, counts as an answer.
 */
export const ask = (s: Settings, request: Request): Promise<Attempted<Answer>> =>
  withToken(s, () => sendOnce(s, request, () => exchange(s, request)));

/** As {@link ask}, for an answer whose body is not JSON: `read` is given it, and it ends when that has settled. */
export const askForMedia = <T>(
  s: Settings,
  request: Request,
  read: (media: Media) => Promise<T>,
): Promise<Attempted<T>> => withToken(s, () => sendOnce(s, request, () => readStream(s, request, read)));

async function withToken<T>(s: Settings, attempt: () => Promise<Attempted<T>>): Promise<Attempted<T>> {
  const held = heldToken(s.client);
  const done = await attempt();
  return done.failure?.status === 401 && forgetToken(s.client, held) ? attempt() : done;
}

async function sendOnce<T>(s: Settings, request: Request, exchanged: () => Promise<T>): Promise<Attempted<T>> {
  const { signal, what, absent, conditional = false } = request;
  if (signal.aborted) return { failure: nothingStored(abortError(signal)) };
  const progress = request.progress ?? { stored: "no" };
  const before = progress.stored;
  // A controller per request, since each scope listens to the signal that it is given.
  const end = new AbortController();
  const forget = onAbort(signal, () => end.abort());
  progress.stored = "maybe";
  try {
    return { value: await within(Infinity, exchanged, { name: what, signal: end.signal }) };
  } catch (error) {
    const judged =
      error instanceof BodyFailure
        ? nothingStored(error.cause)
        : failureOf(error, { what, bucket: s.bucket, conditional, absent });
    const failure = isAborted(signal) ? { ...nothingStored(abortError(signal)), stored: judged.stored } : judged;
    if (failure.stored === "no") progress.stored = before;
    return { failure };
  } finally {
    forget();
  }
}

const isAborted = (signal: AbortSignal): boolean => signal.aborted;

async function exchange(s: Settings, request: Request): Promise<Answer> {
  const { body } = request;
  if (typeof body !== "function") return sent(s, { ...optionsOf(request), ...(body === undefined ? {} : { body }) });
  const opened = body();
  try {
    return await sent(s, { ...optionsOf(request), multipart: opened.parts });
  } catch (error) {
    const failed = opened.failed();
    throw failed === undefined ? error : new BodyFailure(failed);
  } finally {
    opened.close();
  }
}

/** The source of a body failed, so fewer bytes have left than were declared: no server can have had the whole of the request. */
class BodyFailure extends Error {
  override readonly cause: Error;
  constructor(cause: Error) {
    super("the body could not be read", { cause });
    this.cause = cause;
  }
}

const optionsOf = ({ method, address, headers }: Request): Options => ({
  method,
  uri: address,
  headers: { ...headers },
});

function sent(s: Settings, options: Options): Promise<Answer> {
  return new Promise((resolve, reject) => {
    wireOf(s).request(options, (error, body, answer) => {
      const told = { status: answer?.statusCode ?? 0, headers: answer?.headers ?? {}, value: body };
      if (error === null || error === undefined || told.status === 308) resolve(told);
      else reject(asError(error));
    });
  });
}

async function readStream<T>(s: Settings, request: Request, read: (media: Media) => Promise<T>): Promise<T> {
  const out = wireOf(s).requestStream(optionsOf(request));
  const body = await new Promise<Readable & Told>((resolve, reject) => {
    out.once("response", resolve);
    out.on("error", reject);
  });
  try {
    return await read({ status: body.statusCode ?? 0, headers: body.headers ?? {}, body });
  } finally {
    body.destroy();
    out.destroy();
  }
}

/** Sends a request until it succeeds, cannot, or has been sent `attempts` times; for what may be repeated whatever became of it. */
export async function sendRepeatedly<T>(
  s: Settings,
  signal: AbortSignal,
  attempt: () => Promise<Attempted<T>>,
): Promise<Attempted<T>> {
  for (let n = 1; ; n++) {
    const done = await attempt();
    if (done.failure === undefined || !done.failure.again || n >= s.attempts) return done;
    const ended = await pause(s, signal, n);
    if (ended !== null) return { failure: { ...done.failure, error: ended, again: false } };
  }
}

/** Waits before attempt `n + 1`: up to 100 ms, doubling to 5 s, spread evenly. Returns the signal's error when that ended it. */
export async function pause(s: Settings, signal: AbortSignal, n: number): Promise<Error | null> {
  const most = Math.min(5_000, 100 * 2 ** (n - 1));
  try {
    await s.clock.sleep(s.random() * most, { signal });
    return null;
  } catch (error) {
    if (signal.aborted) return abortError(signal);
    throw error;
  }
}

/** Throws what a failure says, or returns the value. */
export function valueOf<T>(attempted: Attempted<T>): T {
  if (attempted.failure !== undefined) throw attempted.failure.error;
  return attempted.value;
}
