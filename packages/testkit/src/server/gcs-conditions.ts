// Preconditions of the JSON API: query parameters that name a generation or a metageneration.
import { conditionNotMet, gcsError } from "./gcs-reply.js";
import type { StoredObject } from "./objects.js";
import type { Reply } from "./reply.js";

/** The metageneration of an object; one that a test put there itself has its first. @internal */
export const metagenerationOf = (stored: StoredObject): number => Number(stored.headers["metageneration"] ?? "1");

/**
 * The answer to a request whose preconditions do not hold, else null. An absent object has generation 0, so `ifGenerationMatch=0` holds only where
 * nothing is, and `ifGenerationNotMatch=0` only where something is. A read whose "not match" fails is not modified: 304, without a body.
 * @internal
 */
export function refusedBy(query: URLSearchParams, stored: StoredObject | undefined, read: boolean): Reply | null {
  const generation = stored?.generation ?? 0;
  const metageneration = stored === undefined ? 0 : metagenerationOf(stored);
  const conditions = [
    { name: "ifGenerationMatch", actual: generation, wanted: true },
    { name: "ifMetagenerationMatch", actual: metageneration, wanted: true },
    { name: "ifGenerationNotMatch", actual: generation, wanted: false },
    { name: "ifMetagenerationNotMatch", actual: metageneration, wanted: false },
  ];
  for (const { name, actual, wanted } of conditions) {
    const given = query.get(name);
    if (given === null) continue;
    if (!/^\d+$/.test(given)) return gcsError(400, "invalidParameter", `Invalid value for ${name}: ${given}`);
    if ((BigInt(given) === BigInt(actual)) === wanted) continue;
    return wanted || !read ? conditionNotMet() : { status: 304 };
  }
  return null;
}
