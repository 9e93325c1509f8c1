import { errorCode, ObjectStoreError, type PutOptions, type PutResult } from "@holdfast/object-store";
import { checksumOf } from "./body.js";
import type { Failure } from "./failure.js";
import { look, verified } from "./look.js";
import type { Settings } from "./options.js";
import type { Put } from "./put-state.js";
import { pause } from "./requests.js";
import { uploadInSession } from "./resumable.js";
import { uploadWhole } from "./simple.js";

/**
 * Writes one object. The rule for what comes of several attempts: one that may have stored something makes the outcome open, until the
 * object is seen. A create or a replacement is sent again under its condition, which makes that safe, and when it then finds another
 * generation, the write id tells whether it is ours. An overwrite whose attempt may have worked is not sent again: it could undo what
 * another wrote in between.
 */
export async function writeObject(s: Settings, put: Put): Promise<PutResult> {
  const { mode } = put.options;
  const crc32c = await checksumOf(put.body, put.signal);
  const inSession = put.size > s.resumable.thresholdBytes;
  let maybe = false;
  for (let n = 1; ; n++) {
    const done = await (inSession ? uploadInSession(s, put, crc32c) : uploadWhole(s, put, crc32c));
    if (done.failure === undefined) return verified(s, put, crc32c, done.value);
    const { failure } = done;
    maybe ||= failure.stored === "maybe";
    if (maybe) put.progress.stored = "maybe";
    let { error } = failure;
    let again = failure.again && (mode !== "overwrite" || failure.stored === "no");
    // All bytes again would be a high price where a look may show that the lost answer was a success.
    const answerLost = inSession && failure.stored === "maybe" && mode === "create";
    if (failure.condition || answerLost || isAbsent(failure, put.options)) {
      const seen = await look(s, put, crc32c, maybe);
      if (seen.outcome !== "absent") return seen;
      if (mode !== "create") return over(maybe ? "unknown" : "failed", gone(put.key));
      again = true;
      const taken = `${JSON.stringify(put.key)} was taken a moment ago and is free now; try again`;
      if (failure.condition) error = new ObjectStoreError("UNAVAILABLE", taken);
    }
    if (!again || n >= s.attempts) return over(maybe ? "unknown" : "failed", error);
    const ended = await pause(s, put.signal, n);
    if (ended !== null) return over(maybe ? "unknown" : "failed", ended);
  }
}

const over = (outcome: "failed" | "unknown", error: Error): PutResult => ({ outcome, error });

/** A 404, and not a 412, to a replacement. */
const isAbsent = (failure: Failure, o: PutOptions): boolean =>
  typeof o.mode === "object" && errorCode(failure.error) === "NOT_FOUND";

const gone = (key: string): Error =>
  new ObjectStoreError("PRECONDITION_FAILED", `nothing is at ${JSON.stringify(key)}, so it cannot be replaced`);
