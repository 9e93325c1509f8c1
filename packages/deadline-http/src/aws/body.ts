import type { Readable } from "node:stream";
import type { Attempt } from "../call.js";
import { frames, type Frame } from "../registry.js";

const isStream = (value: unknown): value is Readable =>
  typeof value === "object" && value !== null && "pipe" in value && "destroy" in value && "readableEnded" in value;

/**
 * The body that the caller is to read: the stream in the output (the vendor may have put a check of its checksum around
 * what came from the wire), else what came from the wire when that is still being read (an event stream). Null when the
 * vendor has read it to its end.
 */
export function openBody(output: unknown, wire: unknown): Readable | null {
  if (typeof output === "object" && output !== null) {
    for (const member of Object.values(output)) if (isStream(member)) return member;
  }
  return isStream(wire) && !wire.readableEnded && !wire.destroyed ? wire : null;
}

/**
 * Keeps the bound of the call on its body. The stream stays the vendor's own, helpers included; every way of a stream to
 * fail goes through its `destroy`, so that is where an error gets the form that the reader is to see.
 *
 * The vendor's pipeline runs outside the caller's scope, and what reads from the socket tells of it there. A listener of
 * the caller's belongs to the scope of the call (`caller`): the requests that it makes would else have no bound at all.
 */
export function boundBody(body: Readable, attempt: Attempt, caller: Frame | undefined): void {
  // Broken before anybody could read it: the attempt failed.
  if (body.errored) throw body.errored;
  const emit = body.emit.bind(body);
  body.emit = (...args: Parameters<typeof emit>): boolean => frames.run(caller, () => emit(...args));
  const destroy = body.destroy.bind(body);
  const held = attempt.hold((error) => void body.destroy(error));
  let failed: Error | null = null;
  body.destroy = (error?: Error): Readable => {
    if (error && !failed) failed = held.failed(error);
    return destroy(failed ?? undefined);
  };
  // Ended from outside, perhaps with nobody reading: that is no uncaught error.
  body.on("error", () => undefined);
  body.once("close", () => held.release());
  guardHelpers(body, () => failed);
  // Ended between the answer and here: nobody will read this body.
  if (attempt.signal.aborted) body.destroy(attempt.signal.reason as Error);
}

/** A stream tells its error once: the SDK's helpers would wait for it for ever, or find an empty body, when it is over. */
function guardHelpers(body: Readable, failed: () => Error | null): void {
  const helpers = body as unknown as Record<string, unknown>;
  for (const name of ["transformToByteArray", "transformToString"]) {
    const own = helpers[name];
    if (typeof own !== "function") continue;
    helpers[name] = async (...args: unknown[]): Promise<unknown> => {
      const error = failed();
      if (error) throw error;
      return (await Reflect.apply(own, body, args)) as unknown;
    };
  }
  const { transformToWebStream } = helpers;
  if (typeof transformToWebStream !== "function") return;
  helpers["transformToWebStream"] = (...args: unknown[]): unknown => {
    const error = failed();
    if (error) throw error;
    return Reflect.apply(transformToWebStream, body, args) as unknown;
  };
}
