import { createHash } from "node:crypto";
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  UploadPartCommand,
  type CompletedPart,
} from "@aws-sdk/client-s3";
import { detached } from "@holdfast/deadline-http";
import { asError, bodyPieces, createLimiter, ObjectStoreError, untilAborted } from "@holdfast/object-store";
import { fingerprint } from "./body.js";
import type { Failure } from "./failure.js";
import { plainEtag } from "./info.js";
import { partBytesFor, type Settings } from "./options.js";
import { conditionOf, type Put, type Stored } from "./put-state.js";
import { sendOnce, sendRepeatedly, type Attempted } from "./requests.js";

/** How long giving up an upload may take; it does not end with the caller, who may be gone already. */
const abortMs = 5_000;

/**
 * One object in parts. Nothing is at the key before the last request, which carries the condition; whatever ends it before that takes its
 * parts with it. `@aws-sdk/lib-storage` is not used: docs/adr/0006-multipart.md says why.
 */
export async function uploadInParts(s: Settings, put: Put): Promise<Attempted<Stored>> {
  const begun = await begin(s, put);
  if (begun.failure !== undefined) return begun;
  const upload = { ...s.everywhere, Key: s.keyPrefix + put.key, UploadId: begun.value };
  const parts = await sendParts(s, put, upload);
  if (parts.failure !== undefined) {
    await giveUp(s, put, upload);
    return parts;
  }
  const done = await complete(s, put, upload, parts.value);
  // Whether it worked or not: what is complete cannot be given up, and what is not must not stay.
  if (done.failure !== undefined) await giveUp(s, put, upload);
  return done;
}

type Upload = Settings["everywhere"] & { readonly Key: string; readonly UploadId: string };

async function begin(s: Settings, put: Put): Promise<Attempted<string>> {
  const { metadata, contentType } = put.options;
  const what = `begin of the upload of ${JSON.stringify(put.key)}`;
  const done = await sendRepeatedly(s, put.signal, () => {
    const command = new CreateMultipartUploadCommand({
      ...s.everywhere,
      ...s.onWrite,
      Key: s.keyPrefix + put.key,
      ...(s.checksum === "crc32" ? { ChecksumAlgorithm: "CRC32" as const } : {}),
      ...(metadata === undefined ? {} : { Metadata: { ...metadata } }),
      ...(contentType === undefined ? {} : { ContentType: contentType }),
    });
    return sendOnce(s, { what, signal: put.signal }, command, (o) => s.client.send(command, o));
  });
  // An upload of which nobody knows the id holds no parts; nothing is at the key.
  if (done.failure !== undefined) return { failure: { ...done.failure, stored: "no" } };
  if (done.value.UploadId !== undefined) return { value: done.value.UploadId };
  return { failure: nothing(new ObjectStoreError("CORRUPT", `${what}: the answer has no upload id`)) };
}

const nothing = (error: Error): Failure => ({ error, stored: "no", again: false, condition: false, serverCode: "" });

/** Reads the body once, a part at a time, with a few of them on their way; the first failure ends the others. */
async function sendParts(s: Settings, put: Put, upload: Upload): Promise<Attempted<CompletedPart[]>> {
  const places = createLimiter(s.multipart.concurrency);
  const stop = new AbortController();
  const signal = AbortSignal.any([put.signal, stop.signal]);
  const sent: Promise<CompletedPart>[] = [];
  let failure: Failure | undefined;
  const fail = (one: Failure) => {
    failure ??= one;
    stop.abort();
  };
  try {
    for await (const bytes of partsOf(put, partBytesFor(put.size, s.multipart.partBytes), signal)) {
      const number = sent.length + 1;
      // Waits for a place before the next part is read: in memory are those on their way, and one.
      await new Promise<void>((begun, ended) => {
        const work = places(async () => {
          begun();
          const part = await sendPart(s, put, upload, number, bytes, signal);
          if (part.failure === undefined) return part.value;
          fail(part.failure);
          throw part.failure.error;
        }, signal);
        work.catch(ended);
        sent.push(work);
      });
    }
    return { value: await Promise.all(sent) };
  } catch (error) {
    fail(nothing(asError(error)));
    await Promise.allSettled(sent);
    return { failure: failure ?? nothing(asError(error)) };
  }
}

/** The body cut into parts: each of `partBytes`, the last one of what is left. */
async function* partsOf(put: Put, partBytes: number, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  let part = new Uint8Array(Math.min(partBytes, put.size));
  let filled = 0;
  let left = put.size;
  for await (const piece of bodyPieces(put.body, { signal })) {
    for (let at = 0; at < piece.byteLength;) {
      const take = Math.min(piece.byteLength - at, part.byteLength - filled);
      part.set(piece.subarray(at, at + take), filled);
      at += take;
      filled += take;
      if (filled < part.byteLength) continue;
      yield part;
      left -= filled;
      part = new Uint8Array(Math.min(partBytes, left));
      filled = 0;
    }
  }
}

async function sendPart(
  s: Settings,
  put: Put,
  upload: Upload,
  number: number,
  bytes: Uint8Array,
  signal: AbortSignal,
): Promise<Attempted<CompletedPart>> {
  const { outgoing, crc32 } = await fingerprint(bytes, s.checksum, signal);
  const what = `part ${number} of ${JSON.stringify(put.key)}`;
  const done = await sendRepeatedly(s, signal, () => {
    const command = new UploadPartCommand({ ...upload, PartNumber: number });
    return sendOnce(s, { what, signal, outgoing }, command, (o) => s.client.send(command, o));
  });
  if (done.failure !== undefined) return { failure: { ...done.failure, stored: "no" } };
  return {
    value: { PartNumber: number, ETag: done.value.ETag, ...(crc32 === undefined ? {} : { ChecksumCRC32: crc32 }) },
  };
}

async function complete(s: Settings, put: Put, upload: Upload, Parts: CompletedPart[]): Promise<Attempted<Stored>> {
  const what = `end of the upload of ${JSON.stringify(put.key)}`;
  const command = new CompleteMultipartUploadCommand({
    ...upload,
    ...conditionOf(s, put.options.mode),
    MultipartUpload: { Parts },
  });
  const conditional = put.options.mode !== "overwrite";
  const request = { what, signal: put.signal, conditional, progress: put.progress };
  const done = await sendOnce(s, request, command, (o) => s.client.send(command, o));
  if (done.failure === undefined) {
    const etag = plainEtag(done.value.ETag);
    return { value: { etag, ...(etag === "" ? { usualEtag: etagOfParts(Parts) } : {}), proved: false } };
  }
  // The upload was there a moment ago. Gone, it was given up by somebody, or has been completed by an attempt whose answer was lost.
  const { failure } = done;
  return { failure: failure.serverCode === "NoSuchUpload" ? { ...failure, stored: "maybe" } : failure };
}

/**
 * The etag that S3 makes of parts: the MD5 of their MD5s, and how many they are; `undefined` when their own etags are no MD5s. Ceph 16
 * makes it too, and answers the last request without it.
 */
function etagOfParts(parts: readonly CompletedPart[]): string | undefined {
  const sums = parts.map((part) => plainEtag(part.ETag));
  if (!sums.every((sum) => /^[0-9a-f]{32}$/.test(sum))) return undefined;
  return `${createHash("md5")
    .update(Buffer.from(sums.join(""), "hex"))
    .digest("hex")}-${sums.length}`;
}

/** Gives an upload up, in its own time and in nobody's scope. What cannot be given up is left to the bucket's lifecycle rule. */
async function giveUp(s: Settings, put: Put, upload: Upload): Promise<void> {
  const work = detached(async () => {
    const end = new AbortController();
    const timer = s.clock.setTimer(abortMs, () => end.abort(), { unref: true });
    try {
      const what = `giving up the upload of ${JSON.stringify(put.key)}`;
      const sent = sendRepeatedly(s, end.signal, () => {
        const command = new AbortMultipartUploadCommand(upload);
        return sendOnce(s, { what, signal: end.signal }, command, (o) => s.client.send(command, o));
      });
      // The SDK looks at the signal only once it has credentials.
      await untilAborted(sent, end.signal);
    } finally {
      timer.cancel();
    }
  });
  // Its failure changes nothing for the caller, whose put has failed for another reason.
  await work.catch(() => undefined);
}
