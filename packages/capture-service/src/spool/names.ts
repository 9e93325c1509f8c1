/**
 * The names in a spool directory say all that has to be known about a file, so a start lists thousands without opening one:
 *
 *   <writer>.<sequence>-<pack>.begun                       no receipt was ever given for it
 *   <writer>.<sequence>-<pack>.open                        being written; its acknowledged records are in it
 *   <writer>.<sequence>-<pack>.<bytes>.failed              a write failed; its first <bytes> bytes are acknowledged
 *   <writer>.<sequence>-<pack>.copy                        that prefix on its way into a new file; worth nothing by itself
 *   <writer>.<sequence>-<pack>.<records>.<sha256>.hfpack   sealed, waiting for its upload
 *   <writer>.<sequence>.void                               a number that no pack uses, to be published as void
 *   <any of these>.quarantined                             not usable, kept for a person to look at
 */
export type PackNumber = { readonly writerId: string; readonly sequence: bigint };
export type PackName = PackNumber & { readonly packId: string };
export type SpoolName =
  | (PackName & { readonly kind: "begun" | "open" | "copy" })
  | (PackName & { readonly kind: "failed"; readonly goodBytes: number })
  | (PackName & { readonly kind: "sealed"; readonly records: number; readonly sha256: string })
  | (PackNumber & { readonly kind: "void" });

const uuid = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}";
const numbered = new RegExp(`^(${uuid})\\.(\\d{16})(?:-(${uuid}))?\\.(.+)$`);
const digits = (sequence: bigint): string => sequence.toString().padStart(16, "0");

/** The name of a file; `parseName` reads it back. */
export function formatName(name: SpoolName): string {
  const number = `${name.writerId}.${digits(name.sequence)}`;
  switch (name.kind) {
    case "void":
      return `${number}.void`;
    case "failed":
      return `${number}-${name.packId}.${name.goodBytes}.failed`;
    case "sealed":
      return `${number}-${name.packId}.${name.records}.${name.sha256}.hfpack`;
    case "begun":
    case "open":
    case "copy":
      return `${number}-${name.packId}.${name.kind}`;
  }
}

/** What a name says, or null for a name that is not ours. */
export function parseName(text: string): SpoolName | null {
  const match = numbered.exec(text);
  if (match === null) return null;
  const [, writerId = "", sequenceText = "", packId, rest = ""] = match;
  const sequence = BigInt(sequenceText);
  if (packId === undefined) return rest === "void" ? { kind: "void", writerId, sequence } : null;
  const pack = { writerId, sequence, packId };
  if (rest === "begun" || rest === "open" || rest === "copy") return { kind: rest, ...pack };
  const failed = /^(\d{1,15})\.failed$/.exec(rest);
  if (failed !== null) return { kind: "failed", ...pack, goodBytes: Number(failed[1]) };
  const sealed = /^(\d{1,9})\.([0-9a-f]{64})\.hfpack$/.exec(rest);
  if (sealed === null) return null;
  return { kind: "sealed", ...pack, records: Number(sealed[1]), sha256: sealed[2] ?? "" };
}

export const quarantineSuffix = ".quarantined";

/** The number that a file uses, quarantined or not: the next sequence starts above all of them. */
export function numberIn(text: string): PackNumber | null {
  const plain = text.endsWith(quarantineSuffix) ? text.slice(0, -quarantineSuffix.length) : text;
  const name = parseName(plain);
  return name === null ? null : { writerId: name.writerId, sequence: name.sequence };
}
