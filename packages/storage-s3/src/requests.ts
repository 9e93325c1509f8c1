import { abortError, ObjectStoreError, onAbort, throwIfAborted } from "@holdfast/object-store";
import { BodyStream, type Outgoing } from "./body.js";
import { failureOf, type Failure } from "./failure.js";
import type { Settings } from "./options.js";

/** A request's result, or what its failure means. */
export type Attempted<T> = { readonly value: T; readonly failure?: undefined } | { readonly failure: Failure };

/** How far a write has come; `stored` is `"maybe"` from the moment in which a request is given to the transport. */
export type Progress = { stored: "no" | "maybe" };

/** One request: what it is for people, and what it carries. */
export type Request = {
  readonly what: string;
  readonly signal: AbortSignal;
  readonly conditional?: boolean;
  readonly outgoing?: Outgoing;
  readonly progress?: Progress;
};

type Step = (args: { readonly request: unknown }) => Promise<{ readonly response?: unknown }>;
/** What is used of a command's steps. The SDK types them by the command's input and output, which do not matter here. */
type Steps = {
  add(around: (next: Step) => Step, o: { step: string; priority: string; name: string }): void;
};
/** Any command of the SDK. */
type Command = { readonly middlewareStack: { add: (...args: never[]) => void } };
type Http = { headers: Record<string, string>; protocol: string; body?: unknown };

/**
 * Sends one command and says what became of it; never rejects. Ends when the signal is aborted, the transport's socket with it.
 *
 * Attempts that the client makes by itself are seen one by one: each opens the body anew, and one that may have stored something
 * is remembered, whatever the last one answers.
 */
export async function sendOnce<T>(
  settings: Settings,
  request: Request,
  command: Command,
  send: (o: { abortSignal: AbortSignal }) => Promise<T>,
): Promise<Attempted<T>> {
  const { signal, what } = request;
  if (signal.aborted) return ended(abortError(signal), "no");
  const progress = request.progress ?? { stored: "no" };
  const before = progress.stored;
  const asked = {
    what,
    bucket: settings.bucket,
    checksum: settings.checksum,
    conditional: request.conditional ?? false,
  };
  const seen: { handed: boolean; stored: "no" | "maybe"; cameAs?: number | undefined; bodyError?: Error } = {
    handed: false,
    stored: "no",
  };
  // A controller per request: the SDK hangs a listener of its own on each signal that it is given.
  const abort = new AbortController();
  const forget = onAbort(signal, () => abort.abort());
  const fail = (error: Error) => {
    seen.bodyError ??= error;
    abort.abort();
  };
  watch(command.middlewareStack, request.outgoing, settings, {
    signal: abort.signal,
    handed: () => {
      seen.handed = true;
      seen.cameAs = undefined;
      progress.stored = "maybe";
    },
    came: (status) => (seen.cameAs = status),
    failed: (error) => {
      // Ended by us: judged below, where it is known why.
      if (abort.signal.aborted) return;
      const failure = failureOf(error, { ...asked, handed: true, cameAs: seen.cameAs });
      if (failure.stored === "maybe") seen.stored = "maybe";
    },
    bodyFailed: fail,
  });
  try {
    return { value: await send({ abortSignal: abort.signal }) };
  } catch (error) {
    const stored = (own: "no" | "maybe"): "no" | "maybe" =>
      seen.stored === "maybe" || own === "maybe" ? "maybe" : "no";
    // Fewer bytes have left than the length that was declared, so no server can have had the whole of this attempt.
    const failure =
      seen.bodyError !== undefined
        ? ended(seen.bodyError, "no").failure
        : isAborted(signal)
          ? ended(abortError(signal), seen.handed ? provedUnsent(error) : "no").failure
          : failureOf(error, { ...asked, handed: seen.handed, cameAs: seen.cameAs });
    const all = { ...failure, stored: stored(failure.stored) };
    if (all.stored === "no") progress.stored = before;
    return { failure: all };
  } finally {
    forget();
  }
}

const isAborted = (signal: AbortSignal): boolean => signal.aborted;

const ended = (error: Error, stored: "no" | "maybe"): { failure: Failure } => ({
  failure: { error, stored, again: false, condition: false, serverCode: "" },
});

/** A bound client's error proves that nothing was sent; otherwise what was given to the transport may have arrived. */
function provedUnsent(error: unknown): "no" | "maybe" {
  const outcome: unknown = error instanceof Error && "outcome" in error ? error.outcome : undefined;
  return outcome === "not-sent" || outcome === "refused" ? "no" : "maybe";
}

type Watcher = {
  /** Nothing goes to the transport once it is aborted. */
  readonly signal: AbortSignal;
  /** An attempt goes to the transport. */
  handed(): void;
  /** An answer to it has come, with this status. */
  came(status: number | undefined): void;
  /** An attempt has failed. */
  failed(error: unknown): void;
  bodyFailed(error: Error): void;
};

/**
 * Puts steps into this one command: the body's headers before it is signed; the body itself, anew, in each attempt; and a look at the
 * status of each answer before the SDK changes it.
 */
function watch(stack: Steps, outgoing: Outgoing | undefined, settings: Settings, watcher: Watcher): void {
  if (outgoing !== undefined) {
    stack.add(
      (next) => async (args) => {
        const { headers } = args.request as Http;
        for (const name of Object.keys(headers)) {
          // With the SDK's own settings these would be of an empty body, since it does not see ours.
          if (/^(?:x-amz-checksum-|x-amz-sdk-checksum|x-amz-trailer$|expect$|content-md5$)/i.test(name)) {
            Reflect.deleteProperty(headers, name);
          }
        }
        Object.assign(headers, outgoing.headers, { "content-length": String(outgoing.size) });
        return next(args);
      },
      { step: "build", priority: "low", name: "holdfastBodyHeaders" },
    );
  }
  stack.add(
    (next) => async (args) => {
      const request = args.request as Http;
      if (request.protocol === "http:" && !settings.allowHttp) {
        const advice = "everybody on the way can read and change everything; use https, or set allowHttp: true";
        throw new ObjectStoreError("CONFIG_INVALID", `the client speaks http: ${advice}`);
      }
      // Not left to the transport: while credentials were fetched somebody may have been told that nothing was sent nor will be.
      throwIfAborted(watcher.signal);
      const body = outgoing?.open((error) => watcher.bodyFailed(error));
      if (outgoing !== undefined) request.body = body;
      watcher.handed();
      try {
        return await next(args);
      } catch (error) {
        watcher.failed(error);
        // What was refused half-way has not been read to its end: its file must not stay open, nor its connection.
        if (body instanceof BodyStream) body.leave();
        throw error;
      } finally {
        // Not kept where the client's own retries would take it for a stream that cannot be sent again.
        if (outgoing !== undefined) request.body = undefined;
      }
    },
    { step: "finalizeRequest", priority: "low", name: "holdfastAttempt" },
  );
  // The innermost step: it sees what came. The SDK's own, around it, turns a 200 with an error inside into a 503.
  stack.add(
    (next) => async (args) => {
      const result = await next(args);
      const { statusCode } = (result.response ?? {}) as { readonly statusCode?: number };
      watcher.came(statusCode);
      return result;
    },
    { step: "deserialize", priority: "low", name: "holdfastStatus" },
  );
}

/** Sends a command until it succeeds, cannot, or has been sent `attempts` times; for what may be repeated whatever became of it. */
export async function sendRepeatedly<T>(
  settings: Settings,
  signal: AbortSignal,
  attempt: () => Promise<Attempted<T>>,
): Promise<Attempted<T>> {
  for (let n = 1; ; n++) {
    const done = await attempt();
    if (done.failure === undefined || !done.failure.again || n >= settings.attempts) return done;
    const ended = await pause(settings, signal, n);
    if (ended !== null) return { failure: { ...done.failure, error: ended, again: false } };
  }
}

/** Waits before attempt `n + 1`: up to 100 ms, doubling to 5 s, spread evenly. Answers the signal's error when that ended it. */
export async function pause(settings: Settings, signal: AbortSignal, n: number): Promise<Error | null> {
  const most = Math.min(5_000, 100 * 2 ** (n - 1));
  try {
    await settings.clock.sleep(settings.random() * most, { signal });
    return null;
  } catch (error) {
    if (signal.aborted) return abortError(signal);
    throw error;
  }
}
