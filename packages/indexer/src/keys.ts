import { CatalogError } from "./catalog-error.js";
import { checkCatalogName } from "./catalog/tables.js";

/** The first sequence number that a writer gives out. Its numbers are dense from here: 0, 1, 2, … */
export const firstSequence = 0n;

/** Greatest sequence that the 16 digits of a key can hold. */
export const greatestSequence = 9_999_999_999_999_999n;

const keyVersion = "v1";
const packEnding = ".hfpack";
const digits = 16;
const writerPattern = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
const uuidPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const keyPattern = /^v1\/([^/]+)\/w=([^/]+)\/([0-9]{16})-([^/]+)\.hfpack$/;

export type PackKeyParts = {
  readonly catalog: string;
  readonly writerId: string;
  readonly sequence: bigint;
  /** null: the number was published as void, no pack uses it. */
  readonly packId: string | null;
};

/** Everything of a catalog in a bucket is below this prefix: `v1/<catalog>/`. */
export function catalogPrefix(catalog: string): string {
  return `${keyVersion}/${checkCatalogName(catalog)}/`;
}

/** The folder of one writer: `v1/<catalog>/w=<writerId>/`. */
export function writerPrefix(o: { catalog: string; writerId: string }): string {
  return `${catalogPrefix(o.catalog)}w=${checkWriterId(o.writerId)}/`;
}

/**
 * Key of a pack: `v1/<catalog>/w=<writerId>/<sequence, 16 digits>-<packId>.hfpack`. Byte order of keys is sequence order
 * within a writer. Throws KEY_INVALID for a writer id outside `[A-Za-z0-9][A-Za-z0-9_-]{0,63}`, a sequence outside
 * 0..9999999999999999 or a pack id that is not a lower-case UUID.
 */
export function packKey(o: { catalog: string; writerId: string; sequence: bigint; packId: string }): string {
  if (!uuidPattern.test(o.packId)) {
    throw new CatalogError("KEY_INVALID", `packId ${JSON.stringify(o.packId)} is not a lower-case UUID`);
  }
  return `${writerPrefix(o)}${sequenceDigits(o.sequence)}-${o.packId}${packEnding}`;
}

/** Key of the empty object that says: this writer gave this number to no pack and never will. */
export function voidKey(o: { catalog: string; writerId: string; sequence: bigint }): string {
  return `${writerPrefix(o)}${sequenceDigits(o.sequence)}-void${packEnding}`;
}

/** The parts of a key that packKey or voidKey could have made; null for every other key. */
export function parsePackKey(key: string): PackKeyParts | null {
  const match = keyPattern.exec(key);
  if (match === null) return null;
  const [, catalog = "", writerId = "", sequence = "", leaf = ""] = match;
  if (!writerPattern.test(writerId)) return null;
  if (leaf !== "void" && !uuidPattern.test(leaf)) return null;
  return { catalog, writerId, sequence: BigInt(sequence), packId: leaf === "void" ? null : leaf };
}

/**
 * Where to start a listing (exclusive) so that it begins at the first key of `sequence` of this writer. It is not itself a
 * key: every key of the number continues it with "-", so it sorts below them all.
 */
export function listFrom(o: { catalog: string; writerId: string; sequence: bigint }): string {
  return `${writerPrefix(o)}${sequenceDigits(o.sequence)}`;
}

/** Whether the text is a UUID in the one spelling that keys use. */
export function isPackId(text: string): boolean {
  return uuidPattern.test(text);
}

function checkWriterId(writerId: string): string {
  if (writerPattern.test(writerId)) return writerId;
  throw new CatalogError(
    "KEY_INVALID",
    `writerId ${JSON.stringify(writerId)} must match ${writerPattern.source}: letters, digits, "_" and "-", at most 64`,
  );
}

function sequenceDigits(sequence: bigint): string {
  if (sequence >= firstSequence && sequence <= greatestSequence) return sequence.toString().padStart(digits, "0");
  throw new CatalogError("KEY_INVALID", `sequence ${sequence.toString()} is outside 0..${greatestSequence.toString()}`);
}
