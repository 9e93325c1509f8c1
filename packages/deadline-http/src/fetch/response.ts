import type { Attempt, Held } from "../call.js";

/** How a body is read whole. `bytes` is newer than Node 20. */
const readers = ["arrayBuffer", "blob", "bytes", "formData", "json", "text"] as const;
type Reader = (this: Response) => Promise<unknown>;

/**
 * The response, with its body under the bound of its call: it ends by the deadline, breaks with this package's errors and
 * is let go when it was read or given up. Reading it whole goes to the response's own methods, since a stream around its
 * stream would cost as much as the request; whoever takes `body`, or a clone, gets one. With a `flaw` the body is let go at once, and
 * whoever reads it gets the error: status and headers are good nevertheless.
 */
export function boundResponse(response: Response, attempt: Attempt, flaw: Error | null): Response {
  if (response.body === null) return response;
  const body = new BoundBody(response, attempt);
  if (flaw) body.spoil(flaw);
  const own = response as unknown as Record<string, unknown>;
  for (const name of readers) {
    const reader = own[name];
    if (typeof reader === "function") own[name] = () => body.whole(reader as Reader);
  }
  own["clone"] = () => body.clone();
  return Object.defineProperty(response, "body", { get: () => body.stream(), configurable: true });
}

class BoundBody {
  /** The response's own stream, taken before its property was replaced. */
  readonly #original: ReadableStream<Uint8Array>;
  /** Its own too: says what is wrong with a clone of a body that was read. */
  readonly #clone: () => Response;
  readonly #held: Held;
  #end: ((error: Error) => void) | null = null;
  #ended: Error | null = null;
  #around: Response | null = null;

  constructor(
    readonly response: Response,
    attempt: Attempt,
  ) {
    this.#original = response.body as ReadableStream<Uint8Array>;
    this.#clone = response.clone.bind(response);
    this.#held = attempt.hold((error) => {
      this.#ended = error;
      this.#end?.(error);
      if (!this.#original.locked) this.#original.cancel(error).catch(() => undefined);
    });
  }

  spoil(flaw: Error): void {
    this.#ended = this.#held.failed(flaw);
    this.#original.cancel(flaw).catch(() => undefined);
  }

  /** What one of the response's own methods reads, or the error that the call was ended with. */
  whole(reader: Reader): Promise<unknown> {
    // Read before, or by a stream: the method itself says what is wrong with that.
    if (this.#around || this.#original.locked) return reader.call(this.#around ?? this.response);
    return new Promise((resolve, reject) => {
      if (this.#ended) {
        reject(this.#ended);
        return;
      }
      this.#end ??= reject;
      reader.call(this.response).then(
        (value) => {
          this.#held.release();
          resolve(value);
        },
        (error: unknown) => reject(this.#judged(error)),
      );
    });
  }

  stream(): ReadableStream<Uint8Array> | null {
    // Read whole by a method of the response: there is nothing more to take from it, nor to bound.
    if (!this.#around && this.#original.locked) return this.#original;
    this.#around ??= this.#wrapped();
    return this.#around.body;
  }

  clone(): Response {
    if (!this.#around && this.#original.locked) return this.#clone();
    this.#around ??= this.#wrapped();
    const { url, redirected, type } = this.response;
    const own = { url: { value: url }, redirected: { value: redirected }, type: { value: type } };
    return Object.defineProperties(this.#around.clone(), own);
  }

  /** A whole body that is no JSON is told as it came. */
  #judged(error: unknown): Error {
    if (this.#ended) return this.#ended;
    if (!(error instanceof SyntaxError)) return this.#held.failed(error);
    this.#held.release();
    return error;
  }

  #wrapped(): Response {
    const reader = this.#original.getReader();
    const body = new ReadableStream<Uint8Array>({
      start: (controller) => {
        this.#end = (error) => {
          controller.error(error);
          reader.cancel(error).catch(() => undefined);
        };
        if (this.#ended) this.#end(this.#ended);
      },
      pull: async (controller) => {
        try {
          const { done, value } = await reader.read();
          if (!done) {
            controller.enqueue(value);
            return;
          }
          this.#held.release();
          controller.close();
        } catch (error) {
          controller.error(this.#ended ?? this.#held.failed(error));
        }
      },
      cancel: async (reason) => {
        this.#held.release();
        await reader.cancel(reason);
      },
    });
    const { status, statusText, headers } = this.response;
    return new Response(body, { status, statusText, headers });
  }
}
