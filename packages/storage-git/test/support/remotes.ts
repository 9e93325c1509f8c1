// The two kinds of remote that the tests use: a directory, and git's own HTTP backend.
import { join } from "node:path";
import { onTestFinished } from "vitest";
import { startGitHttp, type GitHttp } from "./git-http.js";
import { bareRepository, freshFolder } from "./repositories.js";
import { wrappedGit, type Around, type WrappedGit } from "./wrapped-git.js";
import type { WriterOptions } from "./writers.js";

export type Kind = "a directory" | "HTTP";

/** A repository, and options for stores on it. */
export type Remote = {
  /** Where the repository is on this machine. */
  readonly repository: string;
  readonly folder: string;
  /** Its server; null for a directory. */
  readonly http: GitHttp | null;
  /** Options of a store with a directory for clones of its own. */
  options(name: string, more?: Partial<WriterOptions>): WriterOptions;
  /** As `options`, with a git program around whose calls something is done. */
  wrapped(
    name: string,
    around?: readonly Around[],
    more?: Partial<WriterOptions>,
  ): Promise<{ readonly options: WriterOptions; readonly git: WrappedGit }>;
};

export async function openRemote(kind: Kind): Promise<Remote> {
  const folder = await freshFolder();
  const repository = await bareRepository(folder);
  const http = kind === "HTTP" ? await startGitHttp(folder) : null;
  if (http !== null) onTestFinished(() => http[Symbol.asyncDispose]());
  const where = http === null ? { remote: repository } : { remote: http.url("remote.git"), allowHttp: true };
  const options = (name: string, more: Partial<WriterOptions> = {}): WriterOptions => ({
    ...where,
    directory: join(folder, name),
    // No test waits for it to be used up but those that are about it.
    retryBudgetMs: 600_000,
    requestTimeoutMs: 600_000,
    ...more,
  });
  return {
    repository,
    folder,
    http,
    options,
    async wrapped(name, around = [], more = {}) {
      const git = await wrappedGit(folder, around);
      return { options: options(name, { ...more, git: git.program }), git };
    },
  };
}
