// What does not fit into CI's half hour. Each run leaves its report under docs/evidence/, with commit, command and date,
// to be read and committed.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { capture, root } from "./shell.mjs";

const runs = [{ name: "crash", args: ["--kills", "300"] }];

const folder = join(root, "docs", "evidence");
mkdirSync(folder, { recursive: true });
const commit = capture("git", ["rev-parse", "HEAD"]).trim();
for (const { name, args } of runs) {
  const command = `npm run ${name} -- ${args.join(" ")}`;
  console.log(`\n${command}`);
  const output = capture("npm", ["run", "--silent", name, "--", ...args]).trimEnd();
  console.log(output);
  const result = JSON.parse(output.slice(output.lastIndexOf("\n") + 1));
  const report = { command, commit, date: new Date().toISOString().slice(0, 10), node: process.version, result };
  writeFileSync(join(folder, `${name}.json`), `${JSON.stringify(report, null, 2)}\n`);
}
