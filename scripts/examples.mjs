// The examples as a user runs them: packed tarballs, npm, an empty directory, no workspace around it.
import { cpSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkThat, report } from "./checks.mjs";
import { packAll } from "./pack.mjs";
import { capture, root } from "./shell.mjs";

/** The pinned versions of pnpm-workspace.yaml's catalog: `name: version # reason`. */
function catalogPins() {
  const pins = {};
  const text = readFileSync(join(root, "pnpm-workspace.yaml"), "utf8");
  for (const [, name, version] of text.matchAll(/^ {2}"?([@\w/-]+)"?: (\d[\w.-]*)/gm)) pins[name] = version;
  return pins;
}

function manifestFor(example, tarballs, pins) {
  const manifest = JSON.parse(readFileSync(join(example, "package.json"), "utf8"));
  const outside = Object.entries(manifest.dependencies).filter(([name]) => !tarballs.has(name));
  manifest.dependencies = Object.fromEntries([
    ...outside.map(([name, version]) => [name, version === "catalog:" ? pins[name] : version]),
    // All of ours, since none of them is in a registry that npm could take the inner ones from.
    ...[...tarballs].map(([name, file]) => [name, `file:${file}`]),
  ]);
  return manifest;
}

function runExample(name, tarballs, pins) {
  const source = join(root, "examples", name);
  const folder = mkdtempSync(join(tmpdir(), `holdfast-example-${name}-`));
  try {
    cpSync(source, folder, { recursive: true, filter: (path) => !/node_modules|\.holdfast-demo/.test(path) });
    writeFileSync(join(folder, "package.json"), JSON.stringify(manifestFor(source, tarballs, pins), null, 2));
    capture("npm", ["install", "--no-audit", "--no-fund", "--prefer-offline"], { cwd: folder });
    const output = capture(process.execPath, ["index.mjs"], { cwd: folder });
    console.log(`\n--- ${name}\n${output.trimEnd()}`);
    const expected = JSON.parse(readFileSync(join(source, "package.json"), "utf8")).holdfast?.expectedOutput;
    if (expected === undefined) throw new Error(`examples/${name}/package.json has no holdfast.expectedOutput`);
    if (!new RegExp(expected, "m").test(output)) throw new Error(`no line of the output matches /${expected}/`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const tarballs = packAll();
const pins = catalogPins();
const checks = [];
for (const name of readdirSync(join(root, "examples")).sort()) {
  checks.push(await checkThat(`example ${name} from packed tarballs`, async () => runExample(name, tarballs, pins)));
}
report(checks);
