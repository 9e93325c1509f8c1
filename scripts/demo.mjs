// The example "activations", with the server that it needs for the time of the run:
// - `--store s3` starts one unless HOLDFAST_S3_URL names one. What that server holds is kept beside the catalog, so that the next run finds it.
// - `--store gcs` starts the fake of the tests unless STORAGE_EMULATOR_HOST or HOLDFAST_GCS_BUCKET names something else. Its objects are gone when the
//   run ends, and a catalog is useless without its packs, so each run has a new directory, which is removed at the end.
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { root, run } from "./shell.mjs";

const args = process.argv.slice(2);
const { values } = parseArgs({
  args,
  strict: false,
  options: { dir: { type: "string" }, store: { type: "string" }, help: { type: "boolean" } },
});
const command = [process.execPath, join(root, "examples", "activations", "index.mjs"), ...args];
const script = (name, ...rest) => run(process.execPath, [join(root, "scripts", `${name}.mjs`), ...rest]);

function onS3() {
  console.error("holdfast: starting a real S3 server, Ceph's gateway (about 15 s the first time, 6 s later)");
  return script("rgw", "run", "--dir", join(values.dir ?? ".holdfast-demo-s3", "rgw"), "--", ...command);
}

async function onFakeGcs() {
  console.error("holdfast: starting a fake of Google Cloud Storage, made for tests; it keeps nothing after this run");
  const base = resolve(values.dir ?? tmpdir());
  mkdirSync(base, { recursive: true });
  const fresh = mkdtempSync(join(base, "holdfast-demo-gcs-"));
  try {
    return await script("gcs", "run", "--", ...command, "--dir", fresh);
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

const { HOLDFAST_S3_URL, STORAGE_EMULATOR_HOST, HOLDFAST_GCS_BUCKET } = process.env;
const wants = (store) => values.store === store && values.help !== true;
if (wants("s3") && HOLDFAST_S3_URL === undefined) process.exitCode = await onS3();
else if (wants("gcs") && STORAGE_EMULATOR_HOST === undefined && HOLDFAST_GCS_BUCKET === undefined) {
  process.exitCode = await onFakeGcs();
} else process.exitCode = await run(command[0], command.slice(1));
