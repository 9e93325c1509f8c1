import {
  AbortMultipartUploadCommand,
  ListMultipartUploadsCommand,
  type ListMultipartUploadsCommandOutput,
  type MultipartUpload,
} from "@aws-sdk/client-s3";
import { ObjectStoreError, throwIfAborted, untilAborted } from "@holdfast/object-store";
import { settingsOf, type S3StoreOptions, type Settings } from "./options.js";
import { valueOf } from "./read.js";
import { sendOnce, sendRepeatedly } from "./requests.js";

/** What {@link abortIncompleteUploads} takes besides the store's options. */
export type AbortIncompleteUploadsOptions = {
  /** Uploads begun at least this long ago, in ms by the server's clock, are ended; at least 1. A day (86,400,000) suits most. */
  readonly olderThanMs: number;
  /** Ends the call, not what it has aborted already. */
  readonly signal: AbortSignal;
};

/** What {@link abortIncompleteUploads} has found and done; `found` is the sum of the others. */
export type IncompleteUploads = {
  /** Uploads under the store's prefix that were neither completed nor aborted. */
  readonly found: number;
  /** Ended by this call, with their parts. */
  readonly aborted: number;
  /** Left as they are, since they are younger than `olderThanMs`. */
  readonly young: number;
  /** Old enough, and no longer there when they were to be ended: completed or aborted meanwhile. */
  readonly gone: number;
};

/**
 * Ends the uploads in parts that were begun at least `olderThanMs` ago and never completed nor aborted, so that their parts, which no
 * listing of objects shows, are no longer kept and paid for. They stay behind when a process is killed in the middle of a put above
 * `multipart.thresholdBytes`. For an operator or a timer; a lifecycle rule of the bucket (`AbortIncompleteMultipartUpload`) does the same by the day.
 *
 * `o` is what `s3Store` takes. **Everything under its `keyPrefix` is looked at**, whoever began it; without one that is the whole bucket.
 *
 * An upload younger than `olderThanMs` is never touched: its age is told by the server's own clock (the Date of the listing), less a second
 * for what both times leave out. What has been completed is an object and cannot be ended by this.
 *
 * Errors: as of a listing, and the first that an abort meets (`ACCESS_DENIED` without `s3:ListBucketMultipartUploads` or
 * `s3:AbortMultipartUpload`); `CORRUPT` when the answer has no date, or loses its place. What was aborted before stays aborted: call it again.
 * `CONFIG_INVALID` for options that cannot work. A foreign upload whose key has control characters can make its page unreadable.
 *
 * **Not promised:** that an old upload is a dead one. A put that is still under way after `olderThanMs` is ended, and fails: choose an age above
 * the longest upload that you allow, its waits and retries included. Nor that a part which arrives during the abort goes with it.
 * Servers of one store whose clocks differ by more than a second, or are set meanwhile, shift the age by that; so does a proxy that puts its
 * own Date into answers.
 */
export async function abortIncompleteUploads(
  o: S3StoreOptions,
  { olderThanMs, signal }: AbortIncompleteUploadsOptions,
): Promise<IncompleteUploads> {
  if (!Number.isSafeInteger(olderThanMs) || olderThanMs < 1) {
    const advice = "choose an age above the longest upload";
    throw new ObjectStoreError(
      "CONFIG_INVALID",
      `olderThanMs must be a whole number of at least 1, not ${olderThanMs}; ${advice}`,
    );
  }
  const s = settingsOf(o);
  throwIfAborted(signal);
  try {
    return await untilAborted(sweep(s, olderThanMs, signal), signal);
  } finally {
    // A client of ours is nobody else's.
    if (o.client === undefined) s.client.destroy();
  }
}

async function sweep(s: Settings, olderThanMs: number, signal: AbortSignal): Promise<IncompleteUploads> {
  const counts = { found: 0, aborted: 0, young: 0, gone: 0 };
  for await (const page of pagesOfUploads(s, signal)) {
    const old = page.uploads.filter(({ begunAtMs }) => ageMs(page.serverNowMs, begunAtMs) >= olderThanMs);
    counts.found += page.uploads.length;
    counts.young += page.uploads.length - old.length;
    // A few at once, and all of them over before anything is said: after an error nothing of ours goes on.
    for (let i = 0; i < old.length; i += s.multipart.concurrency) {
      const few = old.slice(i, i + s.multipart.concurrency).map((upload) => abortOne(s, upload, signal));
      await Promise.allSettled(few);
      for (const end of few) counts[await end]++;
    }
  }
  return counts;
}

// Both times may be cut to whole seconds: together they can make an upload look older by up to one.
const ageMs = (nowMs: number, begunAtMs: number): number => nowMs - begunAtMs - 1_000;

async function abortOne(s: Settings, upload: Upload, signal: AbortSignal): Promise<"aborted" | "gone"> {
  const what = `abort of the upload of ${JSON.stringify(upload.key)}`;
  const done = await sendRepeatedly(s, signal, () => {
    const command = new AbortMultipartUploadCommand({ ...s.everywhere, Key: upload.key, UploadId: upload.id });
    return sendOnce(s, { what, signal }, command, (options) => s.client.send(command, options));
  });
  // Not an error, also where it was our own first attempt whose answer was lost: it is no longer there.
  if (done.failure?.serverCode === "NoSuchUpload") return "gone";
  valueOf(done);
  return "aborted";
}

/** An upload that is not completed; `key` as the bucket has it, prefix included. */
type Upload = { readonly key: string; readonly id: string; readonly begunAtMs: number };
type Page = { readonly serverNowMs: number; readonly uploads: readonly Upload[] };

/** The uploads under the store's prefix. Each page begins behind the last upload of the one before, so aborting in between skips none. */
async function* pagesOfUploads(s: Settings, signal: AbortSignal): AsyncGenerator<Page, void, undefined> {
  const what = `listing of the uploads in bucket ${s.bucket}`;
  const corrupt = (why: string) => new ObjectStoreError("CORRUPT", `the ${what} ${why}; look at endpoint and style`);
  const seen = new Set<string>();
  let last: Upload | undefined;
  for (;;) {
    const { page, date } = await readPage(s, what, last, signal);
    if (page.IsTruncated === undefined) throw corrupt("was answered with something that is no listing");
    // A date without its zone would be read in this machine's: an upload would be older by hours.
    const serverNowMs = date?.endsWith(" GMT") === true ? Date.parse(date) : Number.NaN;
    if (Number.isNaN(serverNowMs)) throw corrupt("has no date, and only the server's clock tells how old an upload is");
    const uploads = (page.Uploads ?? []).flatMap((entry) => {
      const upload = uploadOf(entry, page.EncodingType === "url");
      if (upload === "incomplete") throw corrupt("has an entry without key, id or time");
      return upload === "foreign" ? [] : [upload];
    });
    const astray = uploads.find(({ key }) => !key.startsWith(s.keyPrefix));
    if (astray !== undefined) throw corrupt(`gave ${JSON.stringify(astray.key)}, which was not asked for`);
    yield { serverNowMs, uploads };
    if (!page.IsTruncated) return;
    last = uploads.at(-1);
    // Not by order: Ceph sorts a key and its upload ids as one name, others by the keys alone.
    const place = JSON.stringify([last?.key, last?.id]);
    if (last === undefined || seen.has(place)) throw corrupt("does not go forward");
    seen.add(place);
  }
}

function uploadOf(entry: MultipartUpload, encoded: boolean): Upload | "foreign" | "incomplete" {
  const { Key, UploadId: id, Initiated } = entry;
  const begunAtMs = Initiated?.getTime() ?? Number.NaN;
  if (Key === undefined || Key === "" || id === undefined || id === "" || Number.isNaN(begunAtMs)) return "incomplete";
  try {
    return { key: encoded ? decodeURIComponent(Key.replaceAll("+", "%20")) : Key, id, begunAtMs };
  } catch {
    return "foreign"; // a name that is not UTF-8 is none of ours
  }
}

async function readPage(
  s: Settings,
  what: string,
  after: Upload | undefined,
  signal: AbortSignal,
): Promise<{ readonly page: ListMultipartUploadsCommandOutput; readonly date: string | undefined }> {
  let date: string | undefined;
  const done = await sendRepeatedly(s, signal, () => {
    const command = new ListMultipartUploadsCommand({
      ...s.everywhere,
      // Without EncodingType: Ceph 16 then encodes and does not say so, and "a%20b" would be two keys. Ours have nothing that XML cannot carry.
      ...(s.keyPrefix === "" ? {} : { Prefix: s.keyPrefix }),
      ...(after === undefined ? {} : { KeyMarker: after.key, UploadIdMarker: after.id }),
    });
    // The answer's headers are seen only by a step of the command's own.
    command.middlewareStack.add(
      (next) => async (args) => {
        const result = await next(args);
        date = (result.response as { headers?: Record<string, string> } | undefined)?.headers?.["date"];
        return result;
      },
      { step: "finalizeRequest", priority: "low", name: "holdfastDate" },
    );
    return sendOnce(s, { what, signal }, command, (options) => s.client.send(command, options));
  });
  return { page: valueOf(done), date };
}
