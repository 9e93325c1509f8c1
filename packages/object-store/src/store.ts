/**
 * The object-store SPI: what Holdfast asks of a place that keeps immutable objects under string keys.
 *
 * Required core only: a store implements these five methods and nothing is optional. Everything convenient (`putVerified`,
 * `getExactly`, …) is a free function over it, so that a wrapper around a store cannot lose an override.
 */

/**
 * A store of objects: each key holds at most one object, and an object is bytes plus a little metadata.
 *
 * For every method:
 * - **Atomicity.** An object is seen whole or not at all; a reader never sees part of a put, nor the bytes of one put with the
 *   metadata of another.
 * - **Ordering.** Read-after-write: what a put reported `created` is seen by every `get`, `head` and `list` that *starts*
 *   afterwards, from any process. Nothing is promised about calls that overlap.
 * - **Errors.** Every rejection is an {@link ObjectStoreError}, or the error that the caller's signal was aborted with.
 *   Callers branch on `code`.
 * - **Time.** A call ends when its signal is aborted, even when the store never answers. Work already handed to the store may
 *   still take effect afterwards.
 * - **Keys.** A key that {@link checkKey} refuses is refused with `INVALID_KEY` before anything is sent.
 *
 * **Not promised:** transactions over several keys, rename, append, ordering between puts to one key that overlap, times that
 * can be compared across stores.
 */
export interface ObjectStore {
  /** The version of this contract. A caller refuses a store with another number. */
  readonly contract: 1;
  /**
   * Names the store in catalogs, so it must stay the same for as long as the objects do, over restarts and machines. Two
   * places with different objects must not share one.
   */
  readonly storeId: string;
  /** What this store can do. What is not declared is refused with `UNSUPPORTED`, never done half. */
  readonly capabilities: Capabilities;

  /**
   * Writes one object. **Never rejects**: whatever happens is one of the outcomes of {@link PutResult}, a refused key and an
   * aborted signal included.
   *
   * - `mode: "create"` writes only when the key holds nothing. Of any number of racing creates, in any number of processes,
   *   exactly one is `created`. An implementation that looks first and then writes breaks this.
   * - `mode: "overwrite"` replaces whatever is there; readers see the old object or the new one.
   * - `mode: { ifMatch }` replaces only the object that has this etag, atomically (needs `capabilities.ifMatch`).
   *
   * `created` means durable: the object outlives a crash of the store's machine as far as the store's own promise goes. The
   * bytes of `body` must not change before the put has settled; a `{ size, open }` body is opened anew for each attempt and
   * must give exactly `size` bytes each time (`BODY_MISMATCH` otherwise, nothing written).
   *
   * **Not promised:** that `failed` and `unknown` are permanent (see {@link PutResult}); that metadata comes back other than
   * byte for byte within {@link checkMetadata}'s rules.
   *
   * **Atomicity, store by store.** Memory: one synchronous step. Directory: a hard link (`create`) or a rename (`overwrite`), no
   * `ifMatch`. S3: `If-None-Match: *` and `If-Match`, which not every store of its protocol looks at: {@link probe} finds out. A
   * 409 there means that another conditional request is on its way, not that the key is taken; a 404 on `If-Match` that nothing is there.
   * **Errors, refused before anything is sent:** what {@link checkPut} refuses, a mode that does not exist included.
   */
  put(key: string, body: Body, o: PutOptions & Call): Promise<PutResult>;

  /**
   * Reads an object or a range of it into memory. The bytes belong to the caller. `info.size` is the size of the whole object
   * whatever the range.
   *
   * A range that starts inside the object and goes past its end is cut at the end; {@link getExactly} turns that into an
   * error. `ifMatch` makes several ranged reads of one object safe against an overwrite in between.
   *
   * Errors: `NOT_FOUND`; `PRECONDITION_FAILED` (the object has another etag than `ifMatch`); `INVALID_RANGE` (see
   * {@link resolveRange}); `CORRUPT` (the store's answer cannot be right: another range than asked for, more or fewer bytes than it
   * declares, a checksum that does not fit); `UNAVAILABLE`, `ACCESS_DENIED`.
   *
   * **Atomicity:** bytes and info are of one object, also while it is overwritten. **Not promised:** that the bytes are those that
   * were put (keep checksums of your own), nor a limit on memory: ask for ranges. **Store by store:** memory copies. A directory reads
   * the file that it has opened, so an overwrite in between does no harm. S3 answers a range with 206 and says which; a 200, another
   * range, or a body that a proxy has decompressed is `CORRUPT`.
   */
  get(
    key: string,
    o: { readonly range?: ByteRange; readonly ifMatch?: string } & Call,
  ): Promise<{ bytes: Uint8Array; info: ObjectInfo }>;

  /**
   * What is at a key, metadata included, without its bytes; `null` when nothing is. Errors as for `get`.
   * A refusal (S3 answers 403 for an absent key to who may not list) is `ACCESS_DENIED`, never `null`. **Not promised:** that the
   * object is still there when this is read.
   */
  head(key: string, o: Call): Promise<ObjectInfo | null>;

  /**
   * The objects whose keys start with `prefix` and come after `startAfter` (exclusive; it need not exist nor have the
   * prefix), in the byte order of the UTF-8 of their keys (see {@link compareKeys}; JavaScript's `<` is not it), at most
   * `limit` of them (a whole number of at least 1; absent: all). `/` has no meaning: there are no folders.
   *
   * No key comes twice. An object that was there before the listing began and is not deleted during it is listed; one that
   * comes or goes during it may or may not be.
   *
   * **A listing carries no metadata**: `metadata` of every listed info is empty, whatever the object has (most stores cannot
   * list it); ask {@link ObjectStore.head}. **Not promised:** that every listed key passes {@link checkKey}; a bucket may hold
   * what others put there. A foreign name that the store cannot even express as a key is left out and never fails the listing.
   *
   * A listing that fails half-way rejects: it never ends early as if it were complete. **Not promised:** one moment in time; that
   * what is listed is still there. **Store by store:** memory and a directory read names and then each object; S3 pages by 1,000
   * and the store checks that pages go forward, since some repeat one.
   *
   * Nothing is asked of the store before the first `next()`; errors, refused arguments included, come out of the iteration.
   */
  list(
    o: { readonly prefix: string; readonly startAfter?: string; readonly limit?: number } & Call,
  ): AsyncIterable<ObjectInfo>;

  /**
   * Removes what is at the key; that nothing is there is success. Resolved means gone for every call that starts afterwards.
   * After a rejection the object may be there or not. There is no conditional delete: do not delete what another may have
   * replaced. Errors: `UNAVAILABLE`, `ACCESS_DENIED`. **Store by store:** a directory syncs the folder, also when nothing was
   * there (who deleted it may have died before that); a bucket with versions keeps the old bytes, which this contract does not see.
   */
  delete(key: string, o: Call): Promise<void>;
}

/** What every call takes. */
export type Call = {
  /**
   * Ends the call when aborted. A deadline aborts it with its own error (an `Error` with a string `code`), which then is the
   * error of the call; aborted with anything else, the call's error is `CANCELED` with the reason as its cause.
   */
  readonly signal: AbortSignal;
};

/** What a store declares about itself; fixed for its lifetime. */
export type Capabilities = {
  /** `mode: "create"` works and is atomic against every other writer. Publishing packs needs it. */
  readonly create: boolean;
  /** `mode: { ifMatch }` works and is atomic against every other writer. (`get`'s `ifMatch` needs no capability.) */
  readonly ifMatch: boolean;
  /** Metadata and content type are kept. Without it, metadata in a put is refused with `UNSUPPORTED`. */
  readonly metadata: boolean;
  /** The largest object, in bytes; more is `TOO_LARGE` before anything is sent. */
  readonly maxObjectBytes: number;
  /** The longest key, in bytes of UTF-8; at most 1024. Longer is `INVALID_KEY`. */
  readonly maxKeyBytes: number;
};

/** The content of a put: bytes, or something that can be read from its start as often as needed. */
export type Body = Uint8Array | { readonly size: number; open(): AsyncIterable<Uint8Array> };

/** How a put treats what is already there, and what is kept beside the bytes. */
export type PutOptions = {
  readonly mode: "create" | "overwrite" | { readonly ifMatch: string };
  /** See {@link checkMetadata} for what is allowed. */
  readonly metadata?: Readonly<Record<string, string>>;
  /** Kept for people and proxies that look at the object; never read by Holdfast. */
  readonly contentType?: string;
};

/**
 * How a put ended.
 *
 * - `created`: this put wrote the object that is (or was) at the key.
 * - `exists`: the mode's condition did not hold and nothing was written; `info` is what is there. It may be our own object,
 *   from an earlier put whose answer was lost: the write id tells ({@link putVerified}).
 * - `failed`: this put has written nothing and never will. `error.code` says why: `INVALID_KEY`, `INVALID_METADATA`,
 *   `TOO_LARGE`, `UNSUPPORTED`, `BODY_MISMATCH`, `PRECONDITION_FAILED` (`ifMatch` and nothing is there), `ACCESS_DENIED`,
 *   `UNAVAILABLE`, `CANCELED` or the signal's own error.
 * - `unknown`: the object may be there, may come later, or may never come. Look ({@link putVerified}) before anything else.
 *
 * A store that cannot tell says `unknown`.
 */
export type PutResult =
  | { readonly outcome: "created"; readonly etag: string }
  | { readonly outcome: "exists"; readonly info: ObjectInfo }
  | { readonly outcome: "failed" | "unknown"; readonly error: Error };

/** A part of an object: `length` bytes from `offset` (0 is the first), or the last `suffix` bytes. */
export type ByteRange = { readonly offset: number; readonly length: number } | { readonly suffix: number };

/** What a store knows about an object besides its bytes. */
export type ObjectInfo = {
  readonly key: string;
  /** Bytes of the whole object. */
  readonly size: number;
  /** Opaque, without quotes. Differs between any two objects that one key held, when their bytes differ. */
  readonly etag: string;
  /** As it was put; always empty in a listing. */
  readonly metadata: Readonly<Record<string, string>>;
  /** The store's own wall clock at the write, ms since 1970. For people: no decision may depend on it. */
  readonly modifiedAtMs: number;
};
