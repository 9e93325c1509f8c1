import { asError, ObjectStoreError, writeIdKey, type PutResult } from "@holdfast/object-store";
import type { Settings } from "./options.js";
import type { Put } from "./put-state.js";
import { readResource } from "./read.js";
import type { Answer } from "./requests.js";
import { infoOf, resourceOf, type Resource } from "./resource.js";

/**
 * The end of a put that was answered with success. An answer about an object of our name, size and checksum proves itself; after any other
 * there is a look.
 */
export async function verified(s: Settings, put: Put, crc32c: string, { value }: Answer): Promise<PutResult> {
  const said = resourceOf(value);
  if (said?.name === s.keyPrefix + put.key && said.size === put.size && said.crc32c === crc32c) return created(said);
  try {
    const there = await readResource(s, put.key, put.signal);
    const key = JSON.stringify(put.key);
    if (there === null) throw new ObjectStoreError("UNAVAILABLE", `${key} was stored, and is not there`);
    const sameWrite = said !== null && said.generation === there.generation;
    if (writeIdKey in there.metadata ? hasOurId(put, there) : sameWrite) return ours(put, crc32c, there);
    // Another writer's object. A caller that is told `created` deletes its own copy of the bytes, so a 200 alone is not proof enough.
    throw anothers(put, there);
  } catch (error) {
    return { outcome: "unknown", error: asError(error) };
  }
}

/**
 * After a condition that did not hold: what is there. Ours, when an attempt may have stored it and it has our write id, size and checksum.
 * `exists` says that nothing was written: so after an attempt without an answer not of a replacement, since what is there may have replaced
 * ours.
 */
export async function look(
  s: Settings,
  put: Put,
  crc32c: string,
  maybe: boolean,
): Promise<PutResult | { readonly outcome: "absent" }> {
  try {
    const there = await readResource(s, put.key, put.signal);
    if (there === null) return { outcome: "absent" };
    if (maybe && hasOurId(put, there)) return ours(put, crc32c, there);
    const { mode } = put.options;
    if (typeof mode === "object" && mode.ifMatch === there.generation) {
      const what = `a replacement of generation ${there.generation} of ${JSON.stringify(put.key)} was refused, which is there`;
      throw new ObjectStoreError("UNAVAILABLE", `${what}: try again, and look at what stands before the store`);
    }
    if (maybe && typeof mode === "object") throw replacedSince(put);
    if (maybe && mayBeOurs(put, crc32c, there)) throw undecided(put);
    return { outcome: "exists", info: infoOf(put.key, there) };
  } catch (error) {
    return { outcome: maybe ? "unknown" : "failed", error: asError(error) };
  }
}

/** Whether what is there has the write id of this put; never, when this put has none. */
function hasOurId(put: Put, there: Resource): boolean {
  const writeId = put.options.metadata?.[writeIdKey];
  return writeId !== undefined && there.metadata[writeIdKey] === writeId;
}

/** Neither the put nor the object has a write id, and nothing else speaks against it: an attempt without an answer may have stored it. */
const mayBeOurs = (put: Put, crc32c: string, there: Resource): boolean =>
  put.options.metadata?.[writeIdKey] === undefined &&
  !(writeIdKey in there.metadata) &&
  there.size === put.size &&
  (there.crc32c ?? crc32c) === crc32c;

const created = ({ generation }: Resource): PutResult => ({ outcome: "created", etag: generation });

/** Our object; `CORRUPT` when it is not the bytes that were sent. */
function ours(put: Put, crc32c: string, there: Resource): PutResult {
  if (there.size === put.size && (there.crc32c ?? crc32c) === crc32c) return created(there);
  const what = `${put.size} bytes of CRC-32C ${crc32c} were put to ${JSON.stringify(put.key)}`;
  const kept = `${there.size} bytes of ${there.crc32c ?? "no checksum"} are there`;
  throw new ObjectStoreError("CORRUPT", `${what} and ${kept}: the store keeps something else than it was sent`);
}

function anothers(put: Put, there: Resource): ObjectStoreError {
  const what = `the put of ${JSON.stringify(put.key)} was answered with success, and the ${there.size} bytes that are there`;
  const advice =
    "it was replaced at once, or never stored; look before anything else, and give puts a write id, which tells whose an object is";
  return new ObjectStoreError("UNAVAILABLE", `${what} are not known to be of this put: ${advice}`);
}

function undecided(put: Put): ObjectStoreError {
  const what = `${JSON.stringify(put.key)} is taken, perhaps by an attempt of this put that had no answer`;
  return new ObjectStoreError("UNAVAILABLE", `${what}: compare what is there, and give puts a write id, which tells`);
}

function replacedSince(put: Put): ObjectStoreError {
  const what = `${JSON.stringify(put.key)} has been replaced, by another or first by an attempt of this put that had no answer`;
  return new ObjectStoreError("UNAVAILABLE", `${what}: compare what is there before anything else`);
}
