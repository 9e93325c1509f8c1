// What a user installs: the packed tarballs are checked, not the folders they came from.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { check, checkThat, report } from "./checks.mjs";
import { packAll } from "./pack.mjs";
import { bin, root } from "./shell.mjs";
import { bundledBytes } from "./size.mjs";
import { packages } from "./workspace.mjs";

/** No dist file may hold a switch that only a test build has, nor a machine's path. */
function scanDist(folder) {
  const bad = /__HOLDFAST_MUTANT__|HOLDFAST_MUTANT|\/work\/|\/root\//;
  for (const file of readdirSync(join(folder, "dist"), { recursive: true })) {
    if (!/\.(js|d\.ts)$/.test(file)) continue;
    const line = readFileSync(join(folder, "dist", file), "utf8").match(bad);
    if (line) throw new Error(`${folder}/dist/${file} holds ${JSON.stringify(line[0])}, which must not be shipped`);
  }
}

/** What nobody should regret to install: the core of deadline-http, without adapters. */
async function coreIsSmall() {
  const most = 8 * 1024;
  const bytes = await bundledBytes(join(root, "packages", "deadline-http", "dist", "index.js"));
  console.log(`deadline-http core: ${bytes} bytes, minified and compressed with gzip`);
  if (bytes > most) throw new Error(`${bytes} bytes, minified and compressed; at most ${most}`);
}

const tarballs = packAll();
const checks = [];
for (const { name, folder } of packages()) {
  const tarball = tarballs.get(name);
  checks.push(await check(`${name}: publint`, bin("publint"), ["run", tarball, "--strict"]));
  checks.push(await check(`${name}: attw`, bin("attw"), [tarball, "--profile", "esm-only"]));
  checks.push(await checkThat(`${name}: nothing of the test build in dist`, async () => scanDist(folder)));
}
checks.push(await checkThat("@holdfast/deadline-http: the core is at most 8 kB", coreIsSmall));
checks.push(await check("API reports are the committed ones", process.execPath, [join(root, "scripts", "api.mjs")]));
report(checks);
