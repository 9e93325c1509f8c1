import { ObjectStoreError, resolveRange, type ByteRange } from "@holdfast/object-store";
import { corrupt } from "./failure.js";
import type { Media } from "./requests.js";

/** What the headers of an answer say of the bytes that come. */
export type Announced = {
  /** The size of the whole object. */
  readonly size: number;
  /** How many bytes were asked for, how many come before them, and how many come in all. */
  readonly length: number;
  readonly skip: number;
  readonly coming: number;
  readonly generation: string;
  /** Empty where the server does not say: then nothing is remembered of this object. */
  readonly metageneration: string;
  /** Base64, of the whole object; undefined from a server that keeps none. */
  readonly crc32c: string | undefined;
};

/** A range as HTTP says it. */
export const rangeHeader = (range: ByteRange): string =>
  "suffix" in range ? `bytes=-${range.suffix}` : `bytes=${range.offset}-${range.offset + range.length - 1}`;

/**
 * Reads from the headers what bytes will come, and checks them against the request. `CORRUPT`: no generation, so no object; the whole object
 * instead of a range, unless its Content-Range covers the range; another range; a length that does not match; bytes that something on the
 * way has compressed or decompressed; a range of an object that is stored with a content encoding.
 */
export function announced(what: string, range: ByteRange | undefined, media: Omit<Media, "body">): Announced {
  const { headers } = media;
  const generation = headers["x-goog-generation"] ?? "";
  if (!/^[1-9]\d{0,18}$/.test(generation)) {
    const advice = "every object has one, so this is none; look at apiEndpoint, and at what stands before the store";
    throw corrupt(what, `status ${media.status} came without a generation: ${advice}`);
  }
  checkEncoding(what, range !== undefined, headers);
  const place = range === undefined ? ofWhole(what, media) : ofRange(what, range, media);
  const crc32c = /(?:^|[,\s])crc32c=([A-Za-z0-9+/=]+)/.exec(headers["x-goog-hash"] ?? "")?.[1];
  return { ...place, generation, metageneration: headers["x-goog-metageneration"] ?? "", crc32c };
}

/**
 * GCS can unpack an object on its way out that is stored with `Content-Encoding: gzip`, and then ignores a range. It is asked not to; that it
 * did, or something else on the way, shows in the encoding of the answer.
 */
function checkEncoding(what: string, ranged: boolean, headers: Media["headers"]): void {
  const plain = (name: string): string => {
    const encoding = headers[name] ?? "";
    return encoding === "identity" ? "" : encoding.slice(0, 40);
  };
  const came = plain("content-encoding");
  const stored = plain("x-goog-stored-content-encoding");
  if (ranged && (came !== "" || stored !== "")) {
    const advice = "a range of it is not a range of what was put; read all of it, or store it without an encoding";
    throw corrupt(what, `the object has Content-Encoding ${JSON.stringify(stored === "" ? came : stored)}: ${advice}`);
  }
  if ("x-goog-stored-content-encoding" in headers && came !== stored) {
    const is = (encoding: string): string => (encoding === "" ? "no encoding" : JSON.stringify(encoding));
    throw corrupt(
      what,
      `the object is stored with ${is(stored)} and came with ${is(came)}: something packs or unpacks`,
    );
  }
}

type Place = Pick<Announced, "size" | "length" | "skip" | "coming">;

function ofWhole(what: string, { status, headers }: Omit<Media, "body">): Place {
  if (status !== 200) throw corrupt(what, `the whole object was asked for and status ${status} came`);
  if (headers["content-range"] !== undefined) throw corrupt(what, "the whole object was asked for and a range came");
  const length = wholeNumber(headers["content-length"]);
  const stored = wholeNumber(headers["x-goog-stored-content-length"]);
  const size = length ?? stored;
  // Chunks prove their own end; the number of bytes in them is the one that is stored.
  if (size === undefined) throw corrupt(what, "the answer has no length, so it could end anywhere unnoticed");
  if (stored !== undefined && stored !== size)
    throw corrupt(what, `${size} bytes were announced of ${stored} that are stored`);
  return { size, length: size, skip: 0, coming: size };
}

function ofRange(what: string, range: ByteRange, { status, headers }: Omit<Media, "body">): Place {
  const length = wholeNumber(headers["content-length"]);
  // An empty object has no range, and is given whole.
  if (status === 200 && length === 0 && wholeNumber(headers["x-goog-stored-content-length"]) === 0) {
    resolveRange(range, 0);
  }
  const seen = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(headers["content-range"] ?? "");
  if ((status !== 206 && status !== 200) || seen === null) {
    throw corrupt(
      what,
      `a range was asked for and status ${status} came, without a content-range of first, last and size`,
    );
  }
  const [first, last, size] = seen.slice(1).map(Number) as [number, number, number];
  const wanted = size === 0 || last >= size ? null : resolveRange(range, size);
  const skip = wanted === null ? -1 : wanted.offset - first;
  const rest = wanted === null ? -1 : last - (wanted.offset + wanted.length - 1);
  const fits = status === 206 ? skip === 0 && rest === 0 : skip >= 0 && rest >= 0;
  if (wanted === null || !fits) throw corrupt(what, `a range was asked for and bytes ${first}-${last} of ${size} came`);
  const coming = last - first + 1;
  // Without a length the range says how many bytes come, and chunks prove their own end.
  if (length !== undefined && length !== coming) {
    throw corrupt(what, `${coming} bytes of the range were announced as ${length}`);
  }
  return { size, length: wanted.length, skip, coming };
}

const wholeNumber = (text: string | undefined): number | undefined =>
  text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;

const arrayBytesMax = 2 ** 31 - 1;

/** The bytes that were asked for, out of all that come; `CORRUPT` when more or fewer come than were announced. */
export async function collect(what: string, body: Media["body"], o: Place): Promise<Uint8Array> {
  const { length, skip, coming } = o;
  if (length > arrayBytesMax) {
    const advice = "ask for ranges of at most 1 GiB";
    throw new ObjectStoreError("TOO_LARGE", `${what}: ${length} bytes do not go into one array; ${advice}`);
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for await (const piece of body as AsyncIterable<Uint8Array>) {
    if (at + piece.byteLength > coming) throw corrupt(what, `more than the announced ${coming} bytes came`);
    const wanted = piece.subarray(Math.max(0, skip - at), Math.max(0, skip + length - at));
    if (wanted.byteLength > 0) bytes.set(wanted, Math.max(0, at - skip));
    at += piece.byteLength;
  }
  if (at === coming) return bytes;
  throw corrupt(what, `${at} bytes came of the announced ${coming}`);
}
