import { asError, ObjectStoreError, writeIdKey, type ObjectInfo, type PutResult } from "@holdfast/object-store";
import type { Put, Stored } from "./put-state.js";
import type { Settings } from "./options.js";
import { readInfo } from "./read.js";

/** The end of a put that was answered with success: a look, unless the answer itself has shown that the bytes are there as sent. */
export async function verified(s: Settings, put: Put, stored: Stored): Promise<PutResult> {
  const { etag, usualEtag = "", proved } = stored;
  if (proved) return { outcome: "created", etag };
  try {
    const info = await readInfo(s, put.key, put.signal);
    if (info === null)
      throw new ObjectStoreError("UNAVAILABLE", `${JSON.stringify(put.key)} was stored, and is not there`);
    const sameEtag = info.etag !== "" && (info.etag === etag || info.etag === usualEtag);
    if (info.size !== put.size && (sameEtag || hasOurId(put, info))) throw keepsElse(put, info);
    // By the write id where the object has one: the etag alone would take another's object with the same bytes for ours.
    if (writeIdKey in info.metadata ? hasOurId(put, info) : sameEtag) return created(put, info);
    // Another's object, in the place of ours. What was overwritten was there before; but nobody overwrites what is created once, and who
    // is told `created` lets go of the bytes: a 200 that is alone with its word is not enough for that.
    const { mode } = put.options;
    const before = typeof mode === "object" && info.etag === mode.ifMatch; // not replaced at all, for all that can be seen
    if (mode !== "create" && etag !== "" && !before) return { outcome: "created", etag };
    throw anothers(put, info);
  } catch (error) {
    return { outcome: "unknown", error: asError(error) };
  }
}

/**
 * After a condition that did not hold: what is there. Ours, when an attempt may have stored it and it has our write id and size. `exists` says
 * that nothing was written: so after an attempt without an answer not of a replacement, since what is there may have replaced ours.
 */
export async function look(s: Settings, put: Put, maybe: boolean): Promise<PutResult | { readonly outcome: "absent" }> {
  try {
    const info = await readInfo(s, put.key, put.signal);
    if (info === null) return { outcome: "absent" };
    if (maybe && hasOurId(put, info)) {
      if (info.size !== put.size) throw keepsElse(put, info);
      return created(put, info);
    }
    const { mode } = put.options;
    if (typeof mode === "object" && mode.ifMatch === info.etag)
      throw new ObjectStoreError("UNAVAILABLE", refusedOwnEtag(put.key));
    if (maybe && typeof mode === "object") throw replacedSince(put);
    if (maybe && mayBeOurs(put, info)) throw nobodyKnows(put);
    return { outcome: "exists", info };
  } catch (error) {
    return { outcome: maybe ? "unknown" : "failed", error: asError(error) };
  }
}

/** Whether what is there has the write id of this put; never, when this put has none. */
function hasOurId(put: Put, info: ObjectInfo): boolean {
  const writeId = put.options.metadata?.[writeIdKey];
  return writeId !== undefined && info.metadata[writeIdKey] === writeId;
}

/** Neither the put nor the object has a write id, and nothing else speaks against it: an attempt without an answer may have stored it. */
const mayBeOurs = (put: Put, info: ObjectInfo): boolean =>
  put.options.metadata?.[writeIdKey] === undefined && !(writeIdKey in info.metadata) && info.size === put.size;

/** Our object, under the etag that readers see. */
function created(put: Put, { etag }: ObjectInfo): PutResult {
  if (etag !== "") return { outcome: "created", etag };
  throw new ObjectStoreError("CORRUPT", `the store tells no etag of ${JSON.stringify(put.key)}, which is there`);
}

function keepsElse(put: Put, info: ObjectInfo): ObjectStoreError {
  const what = `${put.size} bytes were put to ${JSON.stringify(put.key)} and ${info.size} are there`;
  const advice = "the store keeps something else than it is sent (the framing of checksums, maybe)";
  return new ObjectStoreError("CORRUPT", `${what}: ${advice}`);
}

function anothers(put: Put, info: ObjectInfo): ObjectStoreError {
  const what = `the put of ${JSON.stringify(put.key)} was answered with success, and the ${info.size} bytes that are there`;
  const advice =
    "it was replaced at once, or never stored; look before anything else, and give puts a write id, which tells whose an object is";
  return new ObjectStoreError("UNAVAILABLE", `${what} are not known to be of this put: ${advice}`);
}

function nobodyKnows(put: Put): ObjectStoreError {
  const what = `${JSON.stringify(put.key)} is taken, perhaps by an attempt of this put that had no answer`;
  return new ObjectStoreError("UNAVAILABLE", `${what}: compare what is there, and give puts a write id, which tells`);
}

function replacedSince(put: Put): ObjectStoreError {
  const what = `${JSON.stringify(put.key)} has been replaced, by another or first by an attempt of this put that had no answer`;
  return new ObjectStoreError("UNAVAILABLE", `${what}: compare what is there before anything else`);
}

const refusedOwnEtag = (key: string): string =>
  `If-Match with the very etag of ${JSON.stringify(key)} was refused; if that repeats, the store compares it without quotes: set ifMatch to "unquoted", or to false`;
