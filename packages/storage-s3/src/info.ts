import { ObjectStoreError, resolveRange, type ByteRange, type ObjectInfo } from "@holdfast/object-store";

/** What a GET or a HEAD answers about an object. */
export type Answer = {
  readonly ContentLength?: number | undefined;
  readonly ContentRange?: string | undefined;
  readonly ContentEncoding?: string | undefined;
  readonly ETag?: string | undefined;
  readonly LastModified?: Date | undefined;
  readonly Metadata?: Readonly<Record<string, string>> | undefined;
  readonly $metadata: { readonly httpStatusCode?: number | undefined };
};

/** An etag without its quotes, weak or not; `""` when there is none. Otherwise opaque. */
export const plainEtag = (etag: string | undefined): string => (etag ?? "").replace(/^(?:W\/)?"?|"$/g, "");

/**
 * Whether a condition can name this etag. `*` would mean "any", to some servers in quotes too, and what no header can carry is nobody's
 * etag: an object with it does not exist, so nothing has to be sent to know that the condition does not hold.
 */
export const canBeEtag = (etag: string): boolean => etag !== "*" && /^[!#-~]+$/.test(etag);

const noMetadata: Readonly<Record<string, string>> = Object.freeze({});

/** What is known of an object of `size` bytes. */
export function infoOf(key: string, size: number, answer: Omit<Answer, "$metadata">): ObjectInfo {
  return Object.freeze({
    key,
    size,
    etag: plainEtag(answer.ETag),
    metadata: answer.Metadata === undefined ? noMetadata : Object.freeze({ ...answer.Metadata }),
    // Whole seconds, as a HEAD tells them: a listing would tell more, and then one object had two times.
    modifiedAtMs: Math.floor((answer.LastModified?.getTime() ?? 0) / 1000) * 1000,
  });
}

/** The length that an answer declares; `CORRUPT` when it declares none, since then nothing shows that it is whole. */
export function declaredLength(what: string, answer: Answer): number {
  const length = answer.ContentLength;
  if (length !== undefined && Number.isSafeInteger(length) && length >= 0) return length;
  throw new ObjectStoreError(
    "CORRUPT",
    `${what}: the answer has no content-length, so it could end anywhere unnoticed`,
  );
}

/**
 * Throws `CORRUPT` when a success has no etag: every object has one, so it is of something else, an error document or the page of a proxy,
 * whose bytes would be taken for the object's.
 */
export function checkIsObject(what: string, answer: Answer): void {
  if (plainEtag(answer.ETag) !== "") return;
  const status = answer.$metadata.httpStatusCode ?? "?";
  const advice =
    "every object has one, so this is none; look at endpoint and style, and at what stands before the store";
  throw new ObjectStoreError("CORRUPT", `${what}: status ${status} came without an etag; ${advice}`);
}

/** What the answer to a GET brings. */
export type Coming = {
  /** Of the whole object. */
  readonly size: number;
  /** How many bytes were asked for. */
  readonly length: number;
  /** Bytes of the body before those. */
  readonly skip: number;
  /** Bytes of the body. */
  readonly announced: number;
};

/**
 * What a GET has answered. Everything that the answer says must fit what was asked: `CORRUPT` for a 200 to a range without a content-range, for another
 * range, for a length that is not the range's, for a content encoding (something on the way packs or unpacks). A 200 whose content-range covers what
 * was asked for has it. Where there is a content-range, it shows how many bytes must come: the answer needs no content-length.
 */
export function checkGet(what: string, range: ByteRange | undefined, answer: Answer): Coming {
  const corrupt = (why: string) =>
    new ObjectStoreError("CORRUPT", `${what}: ${why}; these bytes are not what was asked for`);
  const encoding = answer.ContentEncoding ?? "";
  if (encoding !== "" && encoding !== "identity") {
    throw corrupt(
      `the answer has content-encoding ${JSON.stringify(encoding.slice(0, 40))}, which is never stored here`,
    );
  }
  const status = answer.$metadata.httpStatusCode;
  if (range === undefined) {
    const length = declaredLength(what, answer);
    if (status !== 200) throw corrupt(`the whole object was asked for and status ${status ?? "?"} came`);
    if (answer.ContentRange !== undefined) throw corrupt("the whole object was asked for and a range came");
    return { size: length, length, skip: 0, announced: length };
  }
  if (status !== 206 && status !== 200) throw corrupt(`a range was asked for and status ${status ?? "?"} came`);
  const seen = /^bytes (\d+)-(\d+)\/(\d+)$/.exec(answer.ContentRange ?? "");
  if (seen === null)
    throw corrupt(`a range was asked for and a ${status} came without a content-range that has range and size`);
  const [first, last, size] = seen.slice(1).map(Number) as [number, number, number];
  const wanted = size === 0 || last >= size ? null : resolveRange(range, size);
  const skip = wanted === null ? -1 : wanted.offset - first;
  const rest = wanted === null ? -1 : last - (wanted.offset + wanted.length - 1);
  const fits = status === 206 ? skip === 0 && rest === 0 : skip >= 0 && rest >= 0;
  if (wanted === null || !fits) throw corrupt(`a range was asked for and bytes ${first}-${last} of ${size} came`);
  const announced = last - first + 1;
  const length = answer.ContentLength ?? announced;
  if (length !== announced) throw corrupt(`${announced} bytes of the range were announced as ${length}`);
  return { size, length: wanted.length, skip, announced };
}

/** A range as HTTP says it. */
export const rangeHeader = (range: ByteRange): string =>
  "suffix" in range ? `bytes=-${range.suffix}` : `bytes=${range.offset}-${range.offset + range.length - 1}`;
