// Git: a bare repository in a fresh directory per case, with two stores on it, each with a clone of its own.
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { gitStore } from "@holdfast/storage-git";
import type { CaseId, Place } from "@holdfast/testkit/conformance";
import type { Backend } from "./backends.js";

const run = promisify(execFile);

/** What a branch of a repository cannot hold, or not so that everybody can check it out: such keys are refused with INVALID_KEY. */
export const gitDeviations: Readonly<Record<CaseId, string>> = {};

export async function openGitPlace(): Promise<Place> {
  const above = await mkdtemp(join(tmpdir(), "holdfast-conformance-"));
  const remote = join(above, "remote.git");
  await run("git", ["init", "--quiet", "--bare", remote]);
  const open = () => gitStore({ remote, directory: join(above, "clones"), retryBudgetMs: 300_000 });
  const [store, other] = [open(), open()];
  const dispose = async (): Promise<void> => {
    await Promise.all([store[Symbol.asyncDispose](), other[Symbol.asyncDispose]()]);
    await rm(above, { recursive: true, force: true, maxRetries: 3 });
  };
  return { store, other, dispose };
}

export const git = (): Promise<Backend> => Promise.resolve({ open: openGitPlace, knownDeviations: gitDeviations });
