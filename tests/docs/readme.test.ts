// Goal: what the READMEs show works. Method: each TypeScript block is run as a program of its own in an empty
// directory, against local things only; each shell block names only commands that exist.
import { execFile } from "node:child_process";
import { mkdtemp, readFile, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..", "..");
const run = promisify(execFile);

interface Block {
  readonly title: string;
  readonly language: string;
  readonly text: string;
}

async function readmes(): Promise<string[]> {
  const folders = ["packages", "examples"];
  const found = ["README.md", "CONTRIBUTING.md"];
  for (const folder of folders) {
    for (const entry of await readdir(join(root, folder))) found.push(join(folder, entry, "README.md"));
  }
  return found;
}

async function blocks(): Promise<Block[]> {
  const all: Block[] = [];
  for (const file of await readmes()) {
    const text = await readFile(join(root, file), "utf8");
    let number = 0;
    for (const [, language = "", body = ""] of text.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)) {
      number += 1;
      all.push({ title: `${file} block ${String(number)}`, language, text: body });
    }
  }
  return all;
}

const every = await blocks();
const code = every.filter((b) => b.language === "ts" || b.language === "js");
const shell = every.filter((b) => b.language === "sh");

describe("code blocks of the READMEs", () => {
  let folder = "";
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), "holdfast-readme-"));
    // The programs find the packages where a reader has installed them: in a node_modules above them.
    await symlink(join(here, "node_modules"), join(folder, "node_modules"));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  // Each waits for itself most of the time: for a first start, a lease, a flush.
  it.concurrent.for(code)("$title runs", async ({ title, text }, { expect }) => {
    const program = join(folder, `${title.replaceAll(/\W+/g, "-")}.mts`);
    // How long a reader's machine may take to flush is not how long ours may.
    await writeFile(program, text.replaceAll(/\.flush\(\d+_000\)/g, ".flush(600_000)"));
    const home = await mkdtemp(join(folder, "run-"));
    const flags = ["--conditions=@holdfast/source", "--import", import.meta.resolve("tsx"), program];
    // TMPDIR is the run's own folder, so that what an example leaves behind goes with it.
    const env = { ...process.env, TMPDIR: home, NODE_OPTIONS: "" };
    const done = await run(process.execPath, flags, { cwd: home, env });
    expect(done.stderr).toBe("");
  });

  it("shell blocks name only npm commands that package.json has", async () => {
    const manifest = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { scripts: object };
    const named = shell.flatMap((b) => [...b.text.matchAll(/npm (?:run )?([a-z][\w:]*)/g)].map(([, name]) => name));
    const builtIn = ["install", "test", "ci", "exec"];
    expect(named.filter((n) => n !== undefined && !(n in manifest.scripts) && !builtIn.includes(n))).toEqual([]);
    expect(named.length).toBeGreaterThan(0);
  });

  it("no example is longer than 25 lines in a package's README", () => {
    const long = code.filter((b) => b.title.startsWith("packages/") && b.text.trimEnd().split("\n").length > 25);
    expect(long.map((b) => b.title)).toEqual([]);
  });
});
