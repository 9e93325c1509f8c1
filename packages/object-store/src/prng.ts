import { randomInt } from "node:crypto";

/** The machine's randomness as a number in [0, 1), with 47 random bits: the default of an option `random`. */
export const systemRandom = (): number => randomInt(2 ** 47) / 2 ** 47;

/**
 * 24 letters and digits that no other call in any process returns: 120 bits of randomness, if `random` has at least 40 in each of its numbers.
 */
export function uniqueId(random: () => number): string {
  const part = () =>
    Math.floor(random() * 2 ** 40)
      .toString(36)
      .padStart(8, "0");
  return part() + part() + part();
}
