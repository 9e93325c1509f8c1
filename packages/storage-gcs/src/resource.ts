import type { ObjectInfo } from "@holdfast/object-store";
import { corrupt } from "./failure.js";

/** What GCS says of an object. */
export type Resource = {
  /** The full name, `keyPrefix` included. */
  readonly name: string;
  readonly size: number;
  /** A number that no other object of this name ever had: the etag of the contract. */
  readonly generation: string;
  /** Counts the changes of the object's metadata. */
  readonly metageneration: string;
  /** Base64; undefined from a server that keeps none. */
  readonly crc32c: string | undefined;
  readonly metadata: Readonly<Record<string, string>>;
  readonly createdMs: number;
};

type Fields = { readonly [name: string]: unknown };
export const fieldsOf = (value: unknown): Fields =>
  typeof value === "object" && value !== null ? (value as Fields) : {};

/** What an answer says of an object; null when it says of none: an error document, or the page of a proxy. */
export function resourceOf(value: unknown): Resource | null {
  const said = fieldsOf(value);
  const name = said["name"];
  const size = wholeNumber(said["size"]);
  const generation = wholeNumber(said["generation"]);
  if (typeof name !== "string" || name === "" || size === null || generation === null || generation === "0")
    return null;
  const crc32c = said["crc32c"];
  return {
    name,
    size: Number(size),
    generation,
    metageneration: wholeNumber(said["metageneration"]) ?? "",
    crc32c: typeof crc32c === "string" ? crc32c : undefined,
    metadata: metadataOf(said["metadata"]),
    createdMs: msOf(said["timeCreated"]),
  };
}

/** A number as the API writes it, in a string, or as some emulators do. */
function wholeNumber(value: unknown): string | null {
  const text = typeof value === "number" ? String(value) : value;
  return typeof text === "string" && /^\d{1,19}$/.test(text) ? text : null;
}

function msOf(value: unknown): number {
  const ms = typeof value === "string" ? Date.parse(value) : 0;
  return Number.isFinite(ms) ? ms : 0;
}

const noMetadata: Readonly<Record<string, string>> = Object.freeze({});

function metadataOf(value: unknown): Readonly<Record<string, string>> {
  const texts = Object.entries(fieldsOf(value)).filter((one): one is [string, string] => typeof one[1] === "string");
  return texts.length === 0 ? noMetadata : Object.freeze(Object.fromEntries(texts));
}

/** The object that an answer must be about; `CORRUPT` when it is about another, or about none. */
export function resourceNamed(name: string, what: string, value: unknown): Resource {
  const resource = resourceOf(value);
  if (resource === null) {
    const advice = "every object has name, size and generation, so this is none; look at apiEndpoint, and at proxies";
    throw corrupt(what, `the answer is not about an object: ${advice}`);
  }
  if (resource.name !== name) throw corrupt(what, "the answer is about another object");
  return resource;
}

/** What the contract says of an object; `list` leaves metadata out. */
export const infoOf = (key: string, { size, generation, metadata, createdMs }: Resource): ObjectInfo =>
  Object.freeze({ key, size, etag: generation, metadata, modifiedAtMs: createdMs });

/** Of the same object, without metadata. */
export const listedInfoOf = (key: string, resource: Resource): ObjectInfo =>
  infoOf(key, { ...resource, metadata: noMetadata });

/** A generation that no object has. */
const noGeneration = "9223372036854775807";

/** How a condition names an etag. What is not a generation is no object's etag, and is sent as one that no object has. */
export const generationOf = (etag: string): string => (/^[1-9]\d{0,18}$/.test(etag) ? etag : noGeneration);
