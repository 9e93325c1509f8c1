// The example "activations", with the server that it needs: `--store s3` starts one for the time of the run, unless HOLDFAST_S3_URL
// names one. What that server holds is kept beside the catalog, so that the next run finds it.
import { join } from "node:path";
import { parseArgs } from "node:util";
import { root, run } from "./shell.mjs";

const args = process.argv.slice(2);
const { values } = parseArgs({ args, strict: false, options: { dir: { type: "string" }, store: { type: "string" } } });
const command = [process.execPath, join(root, "examples", "activations", "index.mjs"), ...args];
if (values.store === "s3" && process.env.HOLDFAST_S3_URL === undefined) {
  const server = join(values.dir ?? ".holdfast-demo-s3", "rgw");
  console.error("holdfast: starting a real S3 server, Ceph's gateway (about 15 s the first time, 6 s later)");
  process.exitCode = await run(process.execPath, [
    join(root, "scripts", "rgw.mjs"),
    "run",
    "--dir",
    server,
    "--",
    ...command,
  ]);
} else {
  process.exitCode = await run(command[0], command.slice(1));
}
