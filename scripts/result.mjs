// What a step of CI leaves for it to add up: a program that runs checks or tests writes it, CI reads it.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";

/**
 * @typedef {object} Result
 * @property {number} passed
 * @property {number} failed
 * @property {readonly string[]} failures one text for each, with what to run
 * @property {readonly { tier: string, passed: number, failed: number, minutes: number }[]} [rows] its parts, where it has some
 */

/** Writes a step's result where CI asked for it; does nothing outside CI. */
export function writeResult(result) {
  const file = process.env.HOLDFAST_RESULT;
  if (file === undefined) return;
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify(result));
}

/** The result that a step wrote; null when it wrote none. */
export const readResult = (file) => (existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : null);
