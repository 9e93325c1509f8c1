// Which requirement ids have a test: an id counts when a string of a test file, its title, begins with it. Ids listed as due in
// docs/requirements.json must have one; an id may move from owed to due, never back without an ADR.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { checkThat, report } from "./checks.mjs";
import { root } from "./shell.mjs";

const { due, owed } = JSON.parse(readFileSync(join(root, "docs", "requirements.json"), "utf8"));

function testFiles(folder) {
  return readdirSync(join(root, folder), { recursive: true })
    .filter((file) => /\.test\.ts$/.test(file) && !file.includes("node_modules"))
    .map((file) => join(root, folder, file));
}

const shown = new Set();
for (const file of [...testFiles("packages"), ...testFiles("tests")]) {
  const text = readFileSync(file, "utf8");
  for (const [, title] of text.matchAll(/["'`]((?:(?:DL|LS|LK|SL|CF|CT|CS|SP|GB)-\d\d\b[^"'`]*))/g)) {
    for (const [id] of title.matchAll(/\b(?:DL|LS|LK|SL|CF|CT|CS|SP|GB)-\d\d\b/g)) shown.add(id);
  }
}

const dueIds = Object.values(due).flat();
const owedIds = Object.values(owed).flat();
report([
  await checkThat(`${dueIds.length} due requirement ids each stand in a test's title`, async () => {
    const missing = dueIds.filter((id) => !shown.has(id));
    if (missing.length > 0) throw new Error(`no test names ${missing.join(", ")}`);
  }),
  await checkThat(
    `${owedIds.length} ids are owed to later issues, none of them listed twice or shown already`,
    async () => {
      const all = [...dueIds, ...owedIds];
      const twice = all.filter((id, i) => all.indexOf(id) !== i);
      if (twice.length > 0) throw new Error(`listed twice: ${twice.join(", ")}`);
      const early = [...shown].filter((id) => !dueIds.includes(id));
      if (early.length > 0) throw new Error(`shown by a test but not listed as due: ${early.join(", ")}`);
    },
  ),
]);
