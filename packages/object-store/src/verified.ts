import { bodyPieces, bodySize } from "./body.js";
import { getExactly } from "./exact.js";
import { asError } from "./errors.js";
import type { Body, Call, ObjectInfo, ObjectStore, PutResult } from "./store.js";

/** The metadata name under which {@link putVerified} keeps the write id. */
export const writeIdKey = "holdfast-write-id";

/** How a verified put ended: the outcomes of a put, with `exists` decided into `created` (ours) or `conflict` (not ours). */
export type VerifiedPutResult =
  Exclude<PutResult, { outcome: "exists" }> | { readonly outcome: "conflict"; readonly info: ObjectInfo };

/**
 * Creates an object once, and recognises it after a lost answer. The write id goes into the metadata; a put that answers `exists`
 * or `unknown` is followed by a look at the key, and what is there decides:
 *
 * - it has our write id and our size: `created`, whichever attempt wrote it;
 * - it has not: `conflict`, with what is there. It is never overwritten;
 * - nothing is there, or the look failed: `unknown` stays `unknown`. The object may still land, so ask again later with the
 *   same write id; do not give the key or the write id to anything else.
 *
 * `failed` comes back as it was. Never rejects. Use a write id that is the same in every attempt, over restarts too, and in no
 * other write (the id of the pack, say). On a store that keeps no metadata the bytes are read back and compared instead.
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
  const decide = async (info: ObjectInfo): Promise<VerifiedPutResult> =>
    (await isOurs(store, key, body, info, o)) ? { outcome: "created", etag: info.etag } : { outcome: "conflict", info };
  if (result.outcome === "exists") {
    return decide(result.info).catch((error: unknown) => ({ outcome: "unknown", error: asError(error) }));
  }
  try {
    const info = await store.head(key, { signal });
    return info === null ? result : await decide(info);
  } catch {
    // The put's own error says why the outcome is open; that the look failed as well is nothing that a caller acts upon.
    return result;
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
