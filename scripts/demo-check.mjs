// `npm run demo` twice, as a newcomer types it: both runs verify all of their records, the second adds a run. Then on a bucket of each kind.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkThat, report } from "./checks.mjs";
import { capture } from "./shell.mjs";

const folder = mkdtempSync(join(tmpdir(), "holdfast-demo-"));
const demo = (...args) => {
  const output = capture("npm", ["run", "--silent", "demo", "--", ...args]);
  console.log(output.trimEnd());
  const [, got, of] = output.match(/verified (\d+) of (\d+) records/) ?? [];
  if (got === undefined || got !== of || Number(of) < 300) throw new Error("the demo did not verify its records");
};
try {
  report([
    await checkThat("npm run demo", async () => demo("--dir", join(folder, "state"))),
    await checkThat("npm run demo, again", async () => demo("--dir", join(folder, "state"))),
    await checkThat("npm run demo -- --store s3", async () => demo("--dir", join(folder, "s3"), "--store", "s3")),
    await checkThat("npm run demo -- --store gcs", async () => demo("--dir", join(folder, "gcs"), "--store", "gcs")),
  ]);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
