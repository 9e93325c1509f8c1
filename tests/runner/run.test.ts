// Goal: a command line runs what it says, and what fails in it is told. Method: the plan of each command line; a run of vitest with our
// reporter over files that fail in every way there is.
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, it } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const tiers = ["unit", "scripted", "live", "crash", "docs"];
interface Planned {
  readonly tier: string;
  readonly part: string;
  readonly names: readonly string[];
  readonly args: readonly string[];
}
type Plan = (args: readonly string[], o: { part: string; tiers?: readonly string[] }) => readonly Planned[];
const { plan } = (await import(new URL("../../scripts/test/run.mjs", import.meta.url).href)) as { plan: Plan };
const quick = (...args: string[]) => plan(args, { part: "quick" });

it("without arguments all tiers run, without what is slow", () => {
  expect(quick().map(({ tier, part }) => [tier, part])).toEqual(tiers.map((tier) => [tier, "quick"]));
});

it.each([
  [
    ["-t", "CS-27"],
    ["-t", "CS-27"],
  ],
  [
    ["--testNamePattern", "lease"],
    ["--testNamePattern", "lease"],
  ],
  [
    ["--bail=1", "-t", "round-trip"],
    ["--bail=1", "-t", "round-trip"],
  ],
])("a title or an option names no file: %j runs every tier, what is slow included", (args, passed) => {
  const planned = quick(...args);
  expect(planned.map(({ tier, part }) => [tier, part])).toEqual(tiers.map((tier) => [tier, "all"]));
  expect(planned[0]).toMatchObject({ names: [], args: passed });
});

it("a file runs its tier alone", () => {
  const file = "packages/reader/test/live/round-trip.test.ts";
  expect(quick(file, "-t", "a (b)")).toMatchObject([
    { tier: "live", part: "all", names: [file], args: ["-t", "a (b)"] },
  ]);
});

it("a folder runs those of the command's tiers that have files in it", () => {
  const planned = plan(["packages/indexer"], { part: "all", tiers: ["unit"] });
  expect(planned).toMatchObject([{ tier: "unit", names: ["packages/indexer"] }]);
});

it("--tier and --rest choose", () => {
  const planned = quick("--rest", "--tier", "crash", "--tier", "live", "packages/indexer");
  expect(planned).toMatchObject([{ tier: "live", part: "slow", names: ["packages/indexer"], args: [] }]);
});

it("a tier that there is not is named beside those that there are", () => {
  expect(() => quick("--tier", "liv")).toThrow('unknown tier "liv"; known: unit, scripted, live, crash, docs');
  expect(() => quick("--tier")).toThrow('unknown tier ""');
});

const failing = `
import { afterAll, describe, expect, it } from "vitest";
it("passes", () => {});
it("fails", () => expect(1).toBe(2));
describe("a suite", () => {
  it("of tests that pass", () => {});
  describe("with a hook", () => {
    afterAll(() => { throw new Error("made to fail in a hook"); });
    it("passes too", () => {});
  });
});
`;

it("the report has failed tests, failed hooks and files that do not load", async () => {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-reporter-"));
  try {
    await symlink(join(root, "node_modules"), join(folder, "node_modules"));
    await writeFile(join(folder, "some.test.mjs"), failing);
    await writeFile(join(folder, "broken.test.mjs"), `throw new Error("made not to load");`);
    const report = join(folder, "report.json");
    const vitest = join(root, "node_modules/vitest/vitest.mjs");
    const reporter = join(root, "scripts/test/reporter.mjs");
    const run = promisify(execFile)(process.execPath, [vitest, "run", "--root", folder, `--reporter=${reporter}`], {
      cwd: folder,
      env: { ...process.env, HOLDFAST_REPORT: report },
    });
    await expect(run).rejects.toMatchObject({ code: 1 });
    const { passed, failed, failures } = JSON.parse(await readFile(report, "utf8")) as {
      readonly passed: number;
      readonly failed: number;
      readonly failures: readonly { file: string; name: string; message: string }[];
    };
    expect([passed, failed]).toEqual([3, 3]);
    const told = failures.map(({ file, name, message }) => [file, name, message.split("\n")[0]]);
    expect(told.sort()).toEqual([
      ["broken.test.mjs", "", "Error: made not to load"],
      ["some.test.mjs", "a suite with a hook", "Error: made to fail in a hook"],
      ["some.test.mjs", "fails", expect.stringContaining("expected 1 to be 2")],
    ]);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
});
