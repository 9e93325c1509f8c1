// Bare repositories for tests, and what is in them, by git itself and not by the store.
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { onTestFinished } from "vitest";

const run = promisify(execFile);
const env = {
  PATH: process.env["PATH"],
  HOME: "/nonexistent",
  GIT_CONFIG_NOSYSTEM: "1",
  GIT_AUTHOR_NAME: "rival",
  GIT_AUTHOR_EMAIL: "rival@localhost",
  GIT_COMMITTER_NAME: "rival",
  GIT_COMMITTER_EMAIL: "rival@localhost",
};

/** A fresh directory, gone when the test is. */
export async function freshFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-git-"));
  onTestFinished(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }));
  return folder;
}

/** Git in a repository; what it printed, without the last newline. */
export async function gitIn(repository: string, ...args: readonly string[]): Promise<string> {
  const { stdout } = await run("git", ["--git-dir", repository, ...args], { env });
  return stdout.replace(/\n$/, "");
}

/** An empty bare repository with the branch `main`, below a folder. */
export async function bareRepository(folder: string, name = "remote.git"): Promise<string> {
  const repository = join(folder, name);
  await run("git", ["init", "--quiet", "--bare", "--template=", "--initial-branch=main", repository], { env });
  return repository;
}

/** What is at a path of the branch, or null. */
export async function textAt(repository: string, path: string, branch = "main"): Promise<string | null> {
  const { stdout } = await run("git", ["--git-dir", repository, "show", `${branch}:${path}`], { env }).catch(() => ({
    stdout: null,
  }));
  return stdout;
}

/** The commit that a branch is at, or null. */
export const headOf = (repository: string, branch = "main"): Promise<string | null> =>
  gitIn(repository, "rev-parse", "--verify", "--quiet", `refs/heads/${branch}`).catch(() => null);

/** How many commits a branch has. */
export const countOf = async (repository: string, branch = "main"): Promise<number> =>
  Number(await gitIn(repository, "rev-list", "--count", `refs/heads/${branch}`).catch(() => "0"));

/** The message of the newest commit, without its trailers. */
export async function messageOf(repository: string, branch = "main"): Promise<string> {
  const message = await gitIn(repository, "log", "-1", "--format=%B", branch);
  return message.replace(/\n\n(?:Holdfast-[^\n]*\n?)+\s*$/, "");
}

/** The paths that the newest commit changed. */
export const changedBy = async (repository: string, branch = "main"): Promise<string[]> =>
  (await gitIn(repository, "diff-tree", "--root", "-r", "--name-only", "--no-commit-id", branch)).split("\n");

/** The shell commands that commit one file to a branch of a bare repository, as another writer would. A null text removes it. */
export function rivalScript(repository: string, path: string, text: string | null, branch = "main"): string {
  const index = `${repository}/rival-index-$$`;
  const change =
    text === null
      ? `printf '0 ${"0".repeat(40)}\\t%s\\n' '${path}' | git update-index --index-info`
      : `git update-index --add --cacheinfo 100644,$(printf %s '${text}' | git hash-object -w --stdin),'${path}'`;
  return [
    `export GIT_DIR='${repository}' GIT_INDEX_FILE="${index}" GIT_AUTHOR_NAME=rival GIT_AUTHOR_EMAIL=r@localhost GIT_COMMITTER_NAME=rival GIT_COMMITTER_EMAIL=r@localhost`,
    `head=$(git rev-parse --verify --quiet refs/heads/${branch} || true)`,
    `if test -n "$head"; then git read-tree "$head"; fi`,
    change,
    `new=$(echo 'by a rival' | git commit-tree $(git write-tree) \${head:+-p $head})`,
    `git update-ref refs/heads/${branch} $new $head`,
    `rm -f "${index}"`,
  ].join("\n");
}

/** Another writer commits one file. */
export async function rivalCommits(repository: string, path: string, text: string | null): Promise<void> {
  await run("sh", ["-ec", rivalScript(repository, path, text)], { env });
}
