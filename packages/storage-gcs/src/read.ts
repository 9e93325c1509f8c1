import { checkRange, errorCode, ObjectStoreError, type ByteRange, type ObjectInfo } from "@holdfast/object-store";
import { objectAddress, objectFields } from "./api.js";
import { base64Of, crc32c } from "./crc32c.js";
import { corrupt, nothingStored } from "./failure.js";
import { announced, collect, rangeHeader, type Announced } from "./media.js";
import type { Settings } from "./options.js";
import { ask, askForMedia, sendRepeatedly, valueOf, type Attempted } from "./requests.js";
import { generationOf, infoOf, resourceNamed, type Resource } from "./resource.js";

type Got = { readonly bytes: Uint8Array; readonly info: ObjectInfo };
type Wanted = { readonly range?: ByteRange; readonly ifMatch?: string; readonly signal: AbortSignal };

/** What GCS says of the object at a key, null when nothing is there. */
export async function readResource(s: Settings, key: string, signal: AbortSignal): Promise<Resource | null> {
  const done = await sendRepeatedly(s, signal, () => resourceOnce(s, key, signal));
  if (errorCode(done.failure?.error) === "NOT_FOUND") return null;
  return valueOf(done);
}

async function resourceOnce(
  s: Settings,
  key: string,
  signal: AbortSignal,
  generation?: string,
): Promise<Attempted<Resource>> {
  const what = `HEAD of ${JSON.stringify(key)}`;
  const done = await ask(s, {
    what,
    signal,
    method: "GET",
    address: objectAddress(s, key, { fields: objectFields, ifGenerationMatch: generation }),
    absent: "object",
    conditional: generation !== undefined,
  });
  if (done.failure !== undefined) return done;
  try {
    return { value: resourceNamed(s.keyPrefix + key, what, done.value.value) };
  } catch (error) {
    return { failure: nothingStored(error as Error) };
  }
}

/**
 * The bytes of an object or of a range, every one of them and no other; see {@link announced}. An answer with bytes says nothing of
 * metadata, so that is asked for as well, of the same generation, unless it is remembered.
 */
export async function readObject(s: Settings, key: string, o: Wanted): Promise<Got> {
  if (o.range !== undefined) checkRange(o.range);
  const done = await sendRepeatedly(s, o.signal, () => readOnce(s, key, o));
  return valueOf(done);
}

async function readOnce(s: Settings, key: string, o: Wanted): Promise<Attempted<Got>> {
  const what = `GET of ${JSON.stringify(key)}`;
  const { range, ifMatch, signal } = o;
  const ifGenerationMatch = ifMatch === undefined ? undefined : generationOf(ifMatch);
  const request = {
    what,
    signal,
    method: "GET",
    address: objectAddress(s, key, { alt: "media", ifGenerationMatch }),
    // As it is stored: GCS unpacks an object with a content encoding for whoever does not say this.
    headers: { "Accept-Encoding": "gzip", ...(range === undefined ? {} : { Range: rangeHeader(range) }) },
    absent: "object",
    conditional: ifMatch !== undefined,
  } as const;
  const done = await askForMedia(s, request, async (media) => {
    const told = announced(what, range, media);
    // A server that ignores the condition would mix two objects in the ranges of one.
    if (ifMatch !== undefined && told.generation !== ifMatch) {
      const why = "the object that came has another generation than was asked for";
      throw new ObjectStoreError("PRECONDITION_FAILED", `${what}: ${why}`);
    }
    const [bytes, about] = await Promise.all([collect(what, media.body, told), resourceOfMedia(s, key, told, signal)]);
    return { bytes, about, told };
  });
  if (done.failure !== undefined) return done;
  const { bytes, about, told } = done.value;
  if (about.failure !== undefined) return about;
  if (about.value.size !== told.size)
    return wrong(what, `it has ${about.value.size} bytes, and ${told.size} by another answer`);
  const kept = told.crc32c ?? about.value.crc32c;
  if (range === undefined && kept !== undefined && base64Of(crc32c(bytes)) !== kept) {
    return wrong(what, "the bytes do not have the CRC-32C that the store keeps of them");
  }
  return { value: { bytes, info: infoOf(key, about.value) } };
}

const wrong = (what: string, why: string): Attempted<never> => ({ failure: nothingStored(corrupt(what, why)) });

/** What the object is of which these bytes come. Replaced or deleted since, it is read again: bytes and info are of one object. */
async function resourceOfMedia(
  s: Settings,
  key: string,
  { generation, metageneration }: Announced,
  signal: AbortSignal,
): Promise<Attempted<Resource>> {
  const remembered = s.remembered.get(key, generation, metageneration);
  if (remembered !== undefined) return { value: remembered };
  const done = await resourceOnce(s, key, signal, generation);
  const replaced =
    done.failure === undefined
      ? done.value.generation !== generation
      : done.failure.condition || errorCode(done.failure.error) === "NOT_FOUND";
  if (replaced) {
    const why = `${JSON.stringify(key)} was replaced or deleted while it was read; try again`;
    return { failure: nothingStored(new ObjectStoreError("UNAVAILABLE", why), true) };
  }
  if (done.failure === undefined) s.remembered.put(key, done.value);
  return done;
}
