import { randomBytes } from "node:crypto";

/** A source of numbers in [0, 1). Injectable wherever the package draws one, so that a run can be repeated. */
export type Random = () => number;

/** The default source: 48 bits from the system's generator for each number. */
export const systemRandom: Random = () => randomBytes(6).readUIntBE(0, 6) / 2 ** 48;

const hexBytes = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));
/** A source that gives what is not in [0, 1) gets a digit all the same, and no loop without end. */
const hexByte = (random: Random): string => hexBytes[Math.floor(random() * 256) & 0xff] ?? "00";

/** `count` random hexadecimal digits. */
export function randomHex(random: Random, count: number): string {
  let text = "";
  while (text.length < count) text += hexByte(random);
  return text.slice(0, count);
}

/** A random (version 4) UUID in canonical lower-case text. */
export function randomUuid(random: Random): string {
  const hex = randomHex(random, 32);
  const variant = ((parseInt(hex.charAt(16), 16) & 0x3) | 0x8).toString(16);
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `4${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20),
  ].join("-");
}
