import { PutObjectCommand } from "@aws-sdk/client-s3";
import { errorCode, ObjectStoreError, type PutOptions, type PutResult } from "@holdfast/object-store";
import { fingerprint, type Fingerprinted } from "./body.js";
import type { Failure } from "./failure.js";
import { canBeEtag, plainEtag } from "./info.js";
import { look, verified } from "./look.js";
import { uploadInParts } from "./multipart.js";
import { conditionOf, type Put, type Stored } from "./put-state.js";
import type { Settings } from "./options.js";
import { pause, sendOnce, type Attempted } from "./requests.js";

/**
 * Writes one object. The rule for what comes of several attempts: one that may have stored something makes the outcome open, until the
 * object is seen. So a create is sent again (its condition makes that safe), and when it then finds the key taken, the write id tells whether
 * by us. An overwrite or a replacement whose attempt may have worked is not sent again: it could undo what another wrote in between.
 */
export async function writeObject(s: Settings, put: Put): Promise<PutResult> {
  const { mode } = put.options;
  if (typeof mode === "object" && !canBeEtag(mode.ifMatch)) return refuseEtag(s, put);
  const inParts = put.size > s.multipart.thresholdBytes && (mode === "overwrite" || s.conditionalComplete);
  const whole = inParts ? null : await fingerprint(put.body, s.checksum, put.signal);
  let maybe = false;
  for (let n = 1; ; n++) {
    const done = whole === null ? await uploadInParts(s, put) : await putWhole(s, put, whole);
    if (done.failure === undefined) return verified(s, put, done.value);
    maybe ||= done.failure.stored === "maybe";
    if (maybe) put.progress.stored = "maybe";
    const { failure } = done;
    let { error } = failure;
    let again =
      failure.again &&
      (mode === "create" || failure.stored === "no" || failure.serverCode === "ConditionalRequestConflict");
    // All parts again would be a high price where a look may show that the lost answer was a success.
    const answerLost = inParts && failure.stored === "maybe" && mode === "create";
    if (failure.condition || answerLost || isAbsent(failure, put.options)) {
      const seen = await look(s, put, maybe);
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

async function refuseEtag(s: Settings, put: Put): Promise<PutResult> {
  const seen = await look(s, put, false);
  return seen.outcome === "absent" ? over("failed", gone(put.key)) : seen;
}

const over = (outcome: "failed" | "unknown", error: Error): PutResult => ({ outcome, error });

/** Some stores answer 404, not 412, when what is to be replaced is not there. */
const isAbsent = (failure: Failure, o: PutOptions): boolean =>
  typeof o.mode === "object" && errorCode(failure.error) === "NOT_FOUND";

const gone = (key: string): Error =>
  new ObjectStoreError("PRECONDITION_FAILED", `nothing is at ${JSON.stringify(key)}, so it cannot be replaced`);

async function putWhole(
  s: Settings,
  put: Put,
  { outgoing, signed, ...sums }: Fingerprinted,
): Promise<Attempted<Stored>> {
  const { mode, contentType, metadata } = put.options;
  const command = new PutObjectCommand({
    ...s.everywhere,
    ...s.onWrite,
    ...conditionOf(s, mode),
    Key: s.keyPrefix + put.key,
    ...(metadata === undefined ? {} : { Metadata: { ...metadata } }),
    ...(contentType === undefined ? {} : { ContentType: contentType }),
  });
  const what = `PUT of ${JSON.stringify(put.key)}`;
  const request = { what, signal: put.signal, conditional: mode !== "overwrite", outgoing, progress: put.progress };
  const done = await sendOnce(s, request, command, (o) => s.client.send(command, o));
  if (done.failure !== undefined) return done;
  const etag = plainEtag(done.value.ETag);
  const given = done.value.ChecksumCRC32;
  if (sums.crc32 !== undefined && given !== undefined && given !== sums.crc32) {
    const error = new ObjectStoreError(
      "CORRUPT",
      `${what}: the store says that it keeps bytes of another CRC-32 than was sent`,
    );
    return { failure: { error, stored: "maybe", again: false, condition: false, serverCode: "" } };
  }
  const proved =
    signed || (given !== undefined && given === sums.crc32) || (sums.md5 !== undefined && etag === sums.md5);
  return { value: { etag, ...(etag === "" ? { usualEtag: sums.md5 } : {}), proved: proved && etag !== "" } };
}
