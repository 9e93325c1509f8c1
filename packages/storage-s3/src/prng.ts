import { randomInt } from "node:crypto";

/** The machine's randomness as a number in [0, 1), with 47 random bits. */
export const systemRandom = (): number => randomInt(2 ** 47) / 2 ** 47;
