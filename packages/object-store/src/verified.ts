import { bodyPieces, bodySize } from "./body.js";
import { getExactly } from "./exact.js";
import { asError, ObjectStoreError } from "./errors.js";
import type { Body, Call, ObjectInfo, ObjectStore, PutResult } from "./store.js";

/** The metadata name under which {@link putVerified} keeps the write id. */
export const writeIdKey = "holdfast-write-id";

/** How a verified put ended: the outcomes of a put, with `exists` decided into `created` (ours) or `conflict` (not ours). */
export type VerifiedPutResult =
  Exclude<PutResult, { outcome: "exists" }> | { readonly outcome: "conflict"; readonly info: ObjectInfo };

/** What a look at a key says about a put of ours whose outcome is open. */
export type ResolvedPut =
  | { readonly outcome: "created"; readonly etag: string }
  | { readonly outcome: "conflict"; readonly info: ObjectInfo }
  | { readonly outcome: "absent" }
  | { readonly outcome: "unknown"; readonly error: Error };

/**
 * Creates an object once, and recognises it after a lost answer. The write id goes into the metadata; a put that answers `exists`
 * or `unknown` is followed by {@link resolveUnknownPut}, and what is there decides:
 *
 * - it has our write id and our size: `created`, whichever attempt wrote it;
 * - it has not: `conflict`, with what is there. It is never overwritten;
 * - nothing is there, or the look failed: `unknown` stays `unknown`. The object may still land, so ask again later with the
 *   same write id; do not give the key or the write id to anything else.
 *
 * `failed` comes back as it was. Never rejects. Use a write id that is the same in every attempt, over restarts too, and in no
 * other write (the id of the pack, say).
 *
 * Does not prove that the stored bytes are ours beyond write id and size; readers check their checksums.
 */
export async function putVerified(
  store: ObjectStore,
  key: string,
  body: Body,
  o: {
    readonly writeId: string;
    readonly metadata?: Readonly<Record<string, string>>;
    readonly contentType?: string;
  } & Call,
): Promise<VerifiedPutResult> {
  const { writeId, metadata, signal } = o;
  const kept = store.capabilities.metadata ? { ...metadata, [writeIdKey]: writeId } : metadata;
  const result = await store.put(key, body, {
    mode: "create",
    signal,
    ...(kept === undefined ? {} : { metadata: kept }),
    ...(o.contentType === undefined ? {} : { contentType: o.contentType }),
  });
  if (result.outcome === "created" || result.outcome === "failed") return result;
  const known = result.outcome === "exists" ? result.info : undefined;
  const resolved = await resolve(store, key, body, known, o);
  if (resolved.outcome === "created" || resolved.outcome === "conflict") return resolved;
  // The put's own error says why the outcome is open; that the look failed as well is nothing that a caller acts upon.
  if (result.outcome === "unknown") return result;
  if (resolved.outcome === "unknown") return resolved;
  const gone = `${JSON.stringify(key)} was taken when it was created and is free now; try again`;
  return { outcome: "unknown", error: new ObjectStoreError("UNAVAILABLE", gone) };
}

/**
 * Looks at a key after a put with this write id ended as `unknown`, in this process or before a restart:
 *
 * - `created`: our object is there, with its etag (our write id and our size);
 * - `conflict`: another's is, with what is there;
 * - `absent`: nothing is there *now*. The put may still be on its way: wait for as long as the store keeps requests, or put
 *   again in mode `create` with the same write id, which is safe whether or not the first one lands in between;
 * - `unknown`: the look failed, `error` says how.
 *
 * Never rejects and never writes. On a store that keeps no metadata the bytes are read back and compared instead; two
 * writers of the same bytes are then both told `created`.
 */
export async function resolveUnknownPut(
  store: ObjectStore,
  key: string,
  body: Body,
  o: { readonly writeId: string } & Call,
): Promise<ResolvedPut> {
  return resolve(store, key, body, undefined, o);
}

async function resolve(
  store: ObjectStore,
  key: string,
  body: Body,
  known: ObjectInfo | undefined,
  o: { readonly writeId: string } & Call,
): Promise<ResolvedPut> {
  try {
    const info = known ?? (await store.head(key, { signal: o.signal }));
    if (info === null) return { outcome: "absent" };
    if (await isOurs(store, key, body, info, o)) return { outcome: "created", etag: info.etag };
    return { outcome: "conflict", info };
  } catch (error) {
    return { outcome: "unknown", error: asError(error) };
  }
}

async function isOurs(
  store: ObjectStore,
  key: string,
  body: Body,
  info: ObjectInfo,
  o: { readonly writeId: string } & Call,
): Promise<boolean> {
  if (info.size !== bodySize(body)) return false;
  if (store.capabilities.metadata) return info.metadata[writeIdKey] === o.writeId;
  let offset = 0;
  for await (const piece of bodyPieces(body, o)) {
    const range = { offset, length: piece.byteLength };
    const there = await getExactly(store, key, range, { signal: o.signal, ifMatch: info.etag });
    if (!piece.every((byte, i) => byte === there[i])) return false;
    offset += piece.byteLength;
  }
  return true;
}
