// An empty repository for one case of the conformance suite, and what a branch of git cannot do of the contract.
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { gitStore } from "@holdfast/storage-git";
import type { CaseId, Place } from "@holdfast/testkit/conformance";

const run = promisify(execFile);

/** A bare repository in a fresh directory, with two stores on it, each with a clone of its own. */
export async function gitPlace(): Promise<Place> {
  const above = await mkdtemp(join(tmpdir(), "holdfast-conformance-"));
  const remote = join(above, "remote.git");
  await run("git", ["init", "--quiet", "--bare", remote]);
  // Two cases read more than a megabyte.
  const options = {
    remote,
    directory: join(above, "clones"),
    maxObjectBytes: 4 * 2 ** 20,
    retryBudgetMs: 600_000,
    requestTimeoutMs: 600_000,
  };
  const [store, other] = [gitStore(options), gitStore(options)];
  const dispose = async (): Promise<void> => {
    await Promise.all([store[Symbol.asyncDispose](), other[Symbol.asyncDispose]()]);
    await rm(above, { recursive: true, force: true, maxRetries: 5 });
  };
  return { store, other, dispose };
}

const noSuchPath = "git has no path with an empty name, so a slash at an end, or beside another one, is INVALID_KEY";
const leadsElsewhere = "a path with the name . or .. leads elsewhere in a check-out: INVALID_KEY";
const oneName =
  "two spellings that are one name on file systems that ignore case or compose letters are INVALID_KEY beside each other";
const fileAndFolder = "in a tree of git a name is a file or a folder: a key below a key is INVALID_KEY";
const longName = "no file system takes a name of over 255 bytes, so keys end there (maxKeyBytes)";

/** Every key that is refused is refused with INVALID_KEY and a message that says what to do: test/unit/paths.test.ts. */
export const gitDeviations: Readonly<Record<CaseId, string>> = {
  "OS-122": noSuchPath,
  "OS-160": `${noSuchPath}; test/live/store.test.ts lists paths in byte order`,
  "OS-164": noSuchPath,
  "OS-174": noSuchPath,
  "OS-176": noSuchPath,
  "OS-178": noSuchPath,
  "OS-179": noSuchPath,
  "OS-181": noSuchPath,
  "OS-195": noSuchPath,
  "OS-219": "a backslash separates folders on Windows, and git refuses to check such a path out: INVALID_KEY",
  "OS-222": noSuchPath,
  "OS-223": noSuchPath,
  "OS-224": noSuchPath,
  "OS-225": noSuchPath,
  "OS-226": leadsElsewhere,
  "OS-227": leadsElsewhere,
  "OS-228": leadsElsewhere,
  "OS-231": oneName,
  "OS-232": oneName,
  "OS-233": oneName,
  "OS-234": oneName,
  "OS-235": oneName,
  "OS-244": longName,
  "OS-245": longName,
  "OS-249": noSuchPath,
  "OS-251": fileAndFolder,
  "OS-252": fileAndFolder,
  "OS-253": fileAndFolder,
  "OS-254": fileAndFolder,
  "OS-255": noSuchPath,
  "OS-269": oneName,
};
