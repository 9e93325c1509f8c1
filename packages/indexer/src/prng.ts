import { randomBytes } from "node:crypto";

/** Uniform in [0, 1). */
export type Random = () => number;

/** The default of every `random` option. */
export const systemRandom: Random = () => randomBytes(4).readUInt32BE(0) / 2 ** 32;

/** A version 4 UUID from an injected source. Ids only need to differ: they are never ordered by. */
export function uuidFrom(random: Random): string {
  const bytes = Array.from({ length: 16 }, () => Math.floor(random() * 256));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const hex = bytes.map((byte) => byte.toString(16).padStart(2, "0")).join("");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join("-");
}

/** A whole number in [0, greatest]. */
export function wholeUpTo(greatest: number, random: Random): number {
  return Math.min(greatest, Math.floor(random() * (greatest + 1)));
}
