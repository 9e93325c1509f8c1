// From an empty clone to an installed and built workspace; quick when there is nothing to do.
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pnpm, root, run } from "./shell.mjs";

const stampFile = join(root, "node_modules", ".holdfast-installed");

/** What the installed packages depend on: the lockfile, the workspace's settings and the Node that installed them. */
function installStamp() {
  const hash = createHash("sha256");
  for (const file of ["pnpm-lock.yaml", "pnpm-workspace.yaml", "package.json"]) {
    hash.update(readFileSync(join(root, file)));
  }
  return `${hash.digest("hex")} node ${process.versions.modules}\n`;
}

function checkNode() {
  const [major, minor] = process.versions.node.split(".").map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  throw new Error(
    `Holdfast needs Node 20.19 or newer; this is ${process.version}. Install a newer Node and run again.`,
  );
}

/** Installs the workspace from its lockfile, if the installed packages are not already those of the lockfile. */
export async function install() {
  checkNode();
  const stamp = installStamp();
  if (existsSync(stampFile) && readFileSync(stampFile, "utf8") === stamp) return;
  console.error(
    existsSync(stampFile)
      ? "holdfast: the lockfile has changed: installing what is new"
      : "holdfast: first run: downloading pnpm 12.4.2 and the packages of pnpm-lock.yaml through npm\n" +
          "          (about 230 MB, of which 178 MB are the ClickHouse engine; later runs download nothing)",
  );
  const code = await run(pnpm[0], [...pnpm.slice(1), "install", "--frozen-lockfile", "--reporter=append-only"], {
    env: { CI: "true" },
  });
  if (code !== 0) throw new Error(`installing the packages failed with exit code ${code}: see the lines above`);
  mkdirSync(join(root, "node_modules"), { recursive: true });
  writeFileSync(stampFile, stamp);
}

/** Builds every package's dist folder; turbo skips those whose inputs did not change. Silent unless it fails. */
export async function build() {
  // Of CI's steps, some of which run beside each other, none builds what CI has built.
  if (process.env.HOLDFAST_BUILT !== undefined) return;
  const logFile = join(root, "temp", "build.log");
  mkdirSync(join(root, "temp"), { recursive: true });
  rmSync(logFile, { force: true });
  if (!existsSync(join(root, ".turbo")))
    console.error("holdfast: building the packages (about half a minute the first time)");
  const turbo = ["exec", "turbo", "run", "build", "--output-logs=errors-only", "--log-order=grouped"];
  const code = await run(pnpm[0], [...pnpm.slice(1), ...turbo], { logFile });
  if (code === 0) return;
  console.error(readFileSync(logFile, "utf8"));
  throw new Error(`the build failed with exit code ${code}: see the lines above`);
}
