import type { Attempt } from "../call.js";

/**
 * The response with its body under the bound of its call: it ends by the deadline, breaks with this package's errors and
 * is let go when it was read or given up. Status, headers, url and the rest are those of the original.
 */
export function boundResponse(original: Response, attempt: Attempt): Response {
  if (original.body === null) return original;
  const reader: ReadableStreamDefaultReader<Uint8Array> = original.body.getReader();
  let stop: ((error: Error) => void) | null = null;
  const held = attempt.hold((error) => {
    stop?.(error);
    reader.cancel(error).catch(() => undefined);
  });
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      stop = (error) => controller.error(error);
    },
    pull: async (controller) => {
      try {
        const { done, value } = await reader.read();
        if (!done) {
          controller.enqueue(value);
          return;
        }
        held.release();
        controller.close();
      } catch (error) {
        controller.error(held.failed(error));
      }
    },
    cancel: async (reason) => {
      held.release();
      await reader.cancel(reason);
    },
  });
  const { status, statusText, headers, url, redirected, type } = original;
  const response = new Response(body, { status, statusText, headers });
  return Object.defineProperties(response, {
    url: { value: url },
    redirected: { value: redirected },
    type: { value: type },
  });
}
