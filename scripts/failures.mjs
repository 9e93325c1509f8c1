// What failed, by name, from the report files that the tiers and checks write: CI prints it at the end, where a log that was cut
// to its last part still has it.
import { readdirSync, readFileSync } from "node:fs";
import { join, relative } from "node:path";
import { root } from "./shell.mjs";

const messageChars = 1_500;

/** Answers one text for each failure in the folder's reports: tier, file, title, and the beginning of what the test said. */
export function failuresIn(folder) {
  return readdirSync(folder)
    .filter((file) => file.endsWith(".json"))
    .flatMap((file) => ofReport(file.replace(/\.json$/, ""), JSON.parse(readFileSync(join(folder, file), "utf8"))));
}

function ofReport(name, { failures = [], testResults = [] }) {
  const checks = failures.map((what) => `${name}: ${what}`);
  const tests = testResults.flatMap((file) => {
    const where = `${name}: ${relative(root, file.name)}`;
    const failed = file.assertionResults.filter(({ status }) => status === "failed");
    if (file.status === "failed" && failed.length === 0) return [`${where}\n${short(file.message)}`];
    return failed.map((test) => `${where}: ${test.fullName}\n${short(test.failureMessages.join("\n"))}`);
  });
  return [...checks, ...tests];
}

const short = (text) =>
  text
    .slice(0, messageChars)
    .split("\n")
    .map((line) => `    ${line}`)
    .join("\n");
