// Goal: the command that a failure is named with runs that test and no other. Method: a shell takes the command apart, as a user's does.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const summary = fileURLToPath(new URL("../../scripts/test/summary.mjs", import.meta.url));

/** What a shell makes of the command for a test of this name. */
function argumentsFor(file: string, name: string): string[] {
  const source = `import { commandFor } from ${JSON.stringify(summary)}; process.stdout.write(commandFor(${JSON.stringify(file)}, ${JSON.stringify(name)}));`;
  const env = { ...process.env };
  delete env["HOLDFAST_S3_URL"];
  const command = execFileSync(process.execPath, ["--input-type=module", "-e", source], { env, encoding: "utf8" });
  return execFileSync("bash", ["-c", `npm() { printf '%s\\0' "$@"; }; ${command}`], { encoding: "utf8" })
    .split("\0")
    .slice(0, -1);
}

it.each(["plain", 'CT-07 it\'s (1.5 s) [a|b] $HOME `x` "y" \\ ^ * ? {} +', "says 'no'"])(
  "a shell passes the file and a pattern that matches this title alone: %s",
  (name) => {
    const file = "packages/reader/test/live/round-trip.test.ts";
    const [test, dashes, named, flag, pattern, ...more] = argumentsFor(file, name);
    expect([test, dashes, named, flag, more]).toEqual(["test", "--", file, "-t", []]);
    expect(new RegExp(pattern!).test(name)).toBe(true);
    expect(new RegExp(pattern!).test(`${name} too`)).toBe(false);
  },
);

it("a file that could not be loaded is run as a whole", () => {
  expect(argumentsFor("tests/crash/owner.test.ts", "")).toEqual(["test", "--", "tests/crash/owner.test.ts"]);
});
