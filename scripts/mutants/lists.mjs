// The lists of mutants, one for each package (tests/mutants).
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { root } from "../shell.mjs";

/**
 * @typedef {object} Mutant
 * @property {string} name the fault, as a sentence without its full stop
 * @property {string} file the source, from the repository's root
 * @property {string} find text that stands in it exactly once
 * @property {string} replace what takes its place
 * @property {string} project the tier of the test
 * @property {string} test the test's file, from the repository's root
 * @property {string} title a part of the title of the test that must fail
 */

const folder = join(root, "tests", "mutants");

/** The packages that have a list. */
export const packages = readdirSync(folder)
  .filter((file) => file.endsWith(".mjs") && file !== "canaries.mjs")
  .map((file) => file.replace(/\.mjs$/, ""));

/** The lists of these packages: `mutants`, and `slow` where they are left to `--all`. */
export const loadLists = (names) => Promise.all(names.map((name) => import(join(folder, `${name}.mjs`))));

/** Answers why the mutant cannot be put into its source, or null. */
export function unfit({ file, find }) {
  const found = readFileSync(join(root, file), "utf8").split(find).length - 1;
  return found === 1 ? null : `${file} has its text ${found} times, not once`;
}

/** Throws for mutants that a change of their source has switched off: it costs nothing to see that before they run. */
export async function checkLists() {
  const mutants = (await loadLists(packages)).flatMap((list) => list.mutants);
  const broken = mutants.flatMap((mutant) => (unfit(mutant) === null ? [] : [`"${mutant.name}": ${unfit(mutant)}`]));
  if (broken.length > 0) throw new Error(broken.join("\n"));
}
