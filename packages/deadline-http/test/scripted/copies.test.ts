// Goal: two installed copies of the built package share one deadline, and a copy refuses to load beside another major.
// Method: the package as it would be published, installed twice in one folder, and loaded by plain Node.
import { execFile } from "node:child_process";
import { cp, mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, expect, it } from "vitest";
import { answer, withServer } from "../support/scripted-server.js";

const run = promisify(execFile);
const source = fileURLToPath(new URL("../..", import.meta.url));
let folder = "";

/** `app` has one copy, and `other`, which the app uses, has one of its own. */
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "holdfast-copies-"));
  await run("npm", ["pack", "--ignore-scripts", "--silent", "--pack-destination", folder], { cwd: source });
  const [tarball = ""] = (await readdir(folder)).filter((name) => name.endsWith(".tgz"));
  await run("tar", ["-xzf", tarball], { cwd: folder });
  const built = (await readdir(join(folder, "package"))).includes("dist");
  if (!built) throw new Error("the package has no dist: run npm run build first");
  const other = join(folder, "node_modules", "other");
  for (const home of [folder, other]) {
    const scope = join(home, "node_modules", "@holdfast");
    await mkdir(scope, { recursive: true });
    await cp(join(folder, "package"), join(scope, "deadline-http"), { recursive: true });
  }
  await writeFile(join(other, "package.json"), '{"name":"other","type":"module","exports":"./index.js"}');
  await writeFile(
    join(other, "index.js"),
    `export { within, remainingMs, systemClock } from "@holdfast/deadline-http";
     export { bindFetch } from "@holdfast/deadline-http/fetch";`,
  );
  return () => rm(folder, { recursive: true });
});

/** Runs a module in the app's folder; answers what it printed. */
async function inApp(code: string): Promise<unknown> {
  const file = join(folder, "main.mjs");
  await writeFile(file, code);
  return JSON.parse((await run(process.execPath, [file], { cwd: folder })).stdout);
}

it("DL-30 a deadline set through one packed copy binds a request made through the other, both ways", async () => {
  await withServer([answer.silent], async ({ url }) => {
    const found = await inApp(`
      import * as mine from "@holdfast/deadline-http";
      import { bindFetch as mineFetch } from "@holdfast/deadline-http/fetch";
      import * as other from "other";
      const ends = (scope, name, fetch) =>
        scope(250, () => fetch("${url}"), { name }).catch(({ code, bound }) => [code, bound.name]);
      console.log(JSON.stringify({
        apart: mine.within !== other.within,
        sameClock: mine.systemClock === other.systemClock,
        left: await mine.within(50, async () => other.remainingMs() <= 50),
        ends: [
          await ends(mine.within, "of the app", other.bindFetch()),
          await ends(other.within, "of the other", mineFetch()),
          await mine.within(9_000, () => ends(other.within, "inner", mineFetch())),
          await other.within(200, () => mine.within(9_000, () => mineFetch()("${url}")), { name: "outer" })
            .catch(({ code, bound }) => [code, bound.name]),
        ],
      }));
    `);
    // The outcome is told elsewhere: a busy machine may not have a new process connected within 250 ms.
    const exceeded = (name: string): string[] => ["DEADLINE_EXCEEDED", name];
    expect(found).toEqual({
      apart: true,
      sameClock: true,
      left: true,
      ends: ["of the app", "of the other", "inner", "outer"].map(exceeded),
    });
  });
});

it.each([
  ["of a version to come", "v2", { major: 2 }],
  ["of another major in its place", "v1", { major: 2 }],
])("DL-30 beside a registry %s importing the built package fails, with a code", async (_name, version, registry) => {
  const found = await inApp(`
    globalThis[Symbol.for("holdfast.deadline.${version}")] = ${JSON.stringify(registry)};
    const refused = await import("@holdfast/deadline-http").catch(({ code, message }) => ({ code, message }));
    console.log(JSON.stringify(refused));
  `);
  expect(found).toMatchObject({ code: "CONFIG_INVALID" });
  expect((found as Error).message).toMatch(/(v2|major 2).*npm ls @holdfast\/deadline-http/);
});
