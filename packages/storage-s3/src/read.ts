import type { Readable } from "node:stream";
import { GetObjectCommand, HeadObjectCommand, type GetObjectCommandOutput } from "@aws-sdk/client-s3";
import { checkRange, ObjectStoreError, onAbort, type ByteRange, type ObjectInfo } from "@holdfast/object-store";
import { crc32Of } from "./body.js";
import { failureOf } from "./failure.js";
import {
  canBeEtag,
  checkGet,
  checkIsObject,
  declaredLength,
  infoOf,
  plainEtag,
  rangeHeader,
  type Coming,
} from "./info.js";
import type { Settings } from "./options.js";
import { sendOnce, sendRepeatedly, type Attempted } from "./requests.js";

const arrayBytesMax = 2 ** 31 - 1;

/** Throws what a failure says, or gives the value. */
export function valueOf<T>(attempted: Attempted<T>): T {
  if (attempted.failure !== undefined) throw attempted.failure.error;
  return attempted.value;
}

/** What is at a key, `null` when nothing is. A HEAD has no body: a missing bucket looks like a missing key. */
export async function readInfo(s: Settings, key: string, signal: AbortSignal): Promise<ObjectInfo | null> {
  const what = `HEAD of ${JSON.stringify(key)}`;
  const done = await sendRepeatedly(s, signal, () => {
    const command = new HeadObjectCommand({ ...s.everywhere, Key: s.keyPrefix + key });
    return sendOnce(s, { what, signal }, command, (o) => s.client.send(command, o));
  });
  const absent = done.failure?.error instanceof ObjectStoreError && done.failure.error.code === "NOT_FOUND";
  if (absent) return null;
  const answer = valueOf(done);
  checkIsObject(what, answer);
  return infoOf(key, declaredLength(what, answer), answer);
}

/** The bytes of an object or of a range, every one of them and no other; see {@link checkGet}. */
export async function readObject(
  s: Settings,
  key: string,
  o: { readonly range?: ByteRange; readonly ifMatch?: string; readonly signal: AbortSignal },
): Promise<{ bytes: Uint8Array; info: ObjectInfo }> {
  if (o.range !== undefined) checkRange(o.range);
  const what = `GET of ${JSON.stringify(key)}`;
  if (o.ifMatch !== undefined && !canBeEtag(o.ifMatch)) return refuseEtag(s, key, o.signal);
  const done = await sendRepeatedly(s, o.signal, async () => {
    const command = new GetObjectCommand({
      ...s.everywhere,
      Key: s.keyPrefix + key,
      ...(o.range === undefined ? {} : { Range: rangeHeader(o.range) }),
      ...(o.ifMatch === undefined ? {} : { IfMatch: `"${o.ifMatch}"` }),
      ...(s.checksum === "crc32" && o.range === undefined ? { ChecksumMode: "ENABLED" as const } : {}),
    });
    const conditional = o.ifMatch !== undefined;
    const answer = await sendOnce(s, { what, signal: o.signal, conditional }, command, (options) =>
      s.client.send(command, options),
    );
    return answer.failure === undefined ? readBody(s, key, what, answer.value, o) : answer;
  });
  return valueOf(done);
}

async function refuseEtag(s: Settings, key: string, signal: AbortSignal): Promise<never> {
  const info = await readInfo(s, key, signal);
  const [code, why] =
    info === null ? (["NOT_FOUND", "nothing is"] as const) : (["PRECONDITION_FAILED", "another object is"] as const);
  throw new ObjectStoreError(code, `${why} at ${JSON.stringify(key)}, and no object has the etag that was given`);
}

async function readBody(
  s: Settings,
  key: string,
  what: string,
  answer: GetObjectCommandOutput,
  o: { readonly range?: ByteRange; readonly ifMatch?: string; readonly signal: AbortSignal },
): Promise<Attempted<{ bytes: Uint8Array; info: ObjectInfo }>> {
  const body = answer.Body as Readable | undefined;
  const forget = onAbort(o.signal, () => body?.destroy());
  try {
    checkIsObject(what, answer);
    const coming = checkGet(what, o.range, answer);
    // A store that ignores the condition would mix two objects in the ranges of one.
    if (o.ifMatch !== undefined && plainEtag(answer.ETag) !== o.ifMatch) {
      throw new ObjectStoreError(
        "PRECONDITION_FAILED",
        `${what}: the object that came has another etag than was asked for`,
      );
    }
    const bytes = await collect(what, body, coming);
    const kept = o.range === undefined ? wholeCrc32(answer) : undefined;
    if (kept !== undefined && kept !== crc32Of(bytes)) {
      throw new ObjectStoreError("CORRUPT", `${what}: the bytes do not have the CRC-32 that the store keeps of them`);
    }
    return { value: { bytes, info: infoOf(key, coming.size, answer) } };
  } catch (error) {
    return {
      failure: failureOf(bodyError(what, error), {
        what,
        bucket: s.bucket,
        checksum: s.checksum,
        handed: true,
        conditional: false,
      }),
    };
  } finally {
    forget();
    body?.destroy();
  }
}

/**
 * The CRC-32 that the store keeps of all the bytes. That of the checksums of parts (`…-3` for three of them) is none; stores older than
 * the type of a checksum tell it without one.
 */
function wholeCrc32({ ChecksumCRC32: crc32, ChecksumType: type }: GetObjectCommandOutput): string | undefined {
  return crc32 === undefined || type === "COMPOSITE" || /-\d+$/.test(crc32) ? undefined : crc32;
}

/** The SDK, told to look at checksums by its own settings, tells of a wrong one by an error without a code. */
function bodyError(what: string, error: unknown): unknown {
  const wrong = error instanceof Error && error.message.startsWith("Checksum mismatch");
  return wrong
    ? new ObjectStoreError("CORRUPT", `${what}: the bytes do not have the checksum that came with them`)
    : error;
}

/** The bytes that were asked for, out of all that come. All must come, and no more: so much the answer has promised. */
async function collect(what: string, body: Readable | undefined, coming: Coming): Promise<Uint8Array> {
  const { length, skip, announced } = coming;
  if (length > arrayBytesMax) {
    throw new ObjectStoreError(
      "TOO_LARGE",
      `${what}: ${length} bytes do not go into one array; ask for ranges of at most 1 GiB`,
    );
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for await (const piece of (body ?? []) as AsyncIterable<Uint8Array>) {
    if (at + piece.byteLength > announced)
      throw new ObjectStoreError("CORRUPT", `${what}: more than the announced ${announced} bytes came`);
    const wanted = piece.subarray(Math.max(0, skip - at), Math.max(0, skip + length - at));
    if (wanted.byteLength > 0) bytes.set(wanted, Math.max(0, at - skip));
    at += piece.byteLength;
  }
  if (at === announced) return bytes;
  throw new ObjectStoreError("CORRUPT", `${what}: ${at} bytes came of the announced ${announced}`);
}
