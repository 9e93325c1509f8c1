import { randomBytes, randomInt } from "node:crypto";

/** The machine's randomness as a number in [0, 1), with 47 random bits. */
export const systemRandom = (): number => randomInt(2 ** 47) / 2 ** 47;

/** A line that no body contains: what separates the parts of one request. */
export const boundaryOf = (): string => `holdfast-${randomBytes(18).toString("hex")}`;
