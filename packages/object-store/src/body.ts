import { ObjectStoreError } from "./errors.js";
import { eachUntilAborted, throwIfAborted } from "./signal.js";
import type { Body } from "./store.js";

/** How many bytes a body declares. */
export function bodySize(body: Body): number {
  return body instanceof Uint8Array ? body.byteLength : body.size;
}

/** Refuses a body whose declared size is not a whole number from 0 to `limit`, with `TOO_LARGE`. */
export function checkBodySize(body: Body, limit: number): void {
  const size = bodySize(body);
  if (Number.isSafeInteger(size) && size >= 0 && size <= limit) return;
  const advice = "store it in several objects";
  throw new ObjectStoreError(
    "TOO_LARGE",
    `a body of ${size} bytes is not between 0 and the store's limit of ${limit}; ${advice}`,
  );
}

/**
 * The body from its start, in pieces as they come (bytes in memory come in views of at most `pieceBytes`, default 1 MiB, so that
 * nobody works on 64 MiB in one turn). `BODY_MISMATCH` as soon as it gives more than it declared, or at its end when it gave less:
 * what was read until then must not be published. Ends with {@link abortError} when the signal is aborted, even when
 * the body's source never answers.
 */
export async function* bodyPieces(
  body: Body,
  o: { readonly signal: AbortSignal; readonly pieceBytes?: number },
): AsyncGenerator<Uint8Array, void, undefined> {
  if (body instanceof Uint8Array) {
    const step = o.pieceBytes ?? 1 << 20;
    for (let at = 0; at < body.byteLength; at += step) {
      throwIfAborted(o.signal);
      yield body.subarray(at, at + step);
    }
    return;
  }
  let seen = 0;
  for await (const piece of eachUntilAborted(body.open(), o.signal)) {
    seen += piece.byteLength;
    if (seen > body.size) throw mismatch(body.size, `at least ${seen}`);
    yield piece;
  }
  if (seen !== body.size) throw mismatch(body.size, String(seen));
}

/** The whole body as one array of its own. Errors as for {@link bodyPieces}. */
export async function collectBody(body: Body, o: { readonly signal: AbortSignal }): Promise<Uint8Array> {
  const bytes = new Uint8Array(bodySize(body));
  let at = 0;
  for await (const piece of bodyPieces(body, o)) {
    bytes.set(piece, at);
    at += piece.byteLength;
  }
  return bytes;
}

function mismatch(declared: number, given: string): ObjectStoreError {
  const advice = "the source changed while it was read, or its size is wrong";
  return new ObjectStoreError("BODY_MISMATCH", `a body declared ${declared} bytes and gave ${given}; ${advice}`);
}
