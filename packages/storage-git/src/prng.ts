import { randomInt } from "node:crypto";

/** The machine's randomness as a number in [0, 1), with 47 random bits. */
export const systemRandom = (): number => randomInt(2 ** 47) / 2 ** 47;

/** 24 letters and digits that no other write, in any process, has: 120 bits of randomness. */
export function uniqueId(random: () => number): string {
  const part = () =>
    Math.floor(random() * 2 ** 40)
      .toString(36)
      .padStart(8, "0");
  return part() + part() + part();
}
