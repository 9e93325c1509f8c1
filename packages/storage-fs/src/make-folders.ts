import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";
import { ObjectStoreError } from "@holdfast/object-store";

/**
 * Makes a folder and those above it that are missing, one level at a time, and returns the highest that it made, or `undefined` when all
 * were there. Rejects with the system's error, or with `ACCESS_DENIED` below a folder that is there and says ENOENT to new ones, as /proc
 * does: Node's own `recursive` never returns from that.
 */
export async function makeFolders(path: string): Promise<string | undefined> {
  const first = await makeOne(path);
  if (first === "made") return path;
  if (first === "there") return undefined;
  const above = dirname(path);
  if (!isAbsent(first) || above === path) throw first;
  const highest = await makeFolders(above);
  const second = await makeOne(path);
  if (second === "made") return highest ?? path;
  if (second === "there") return highest;
  // Where the one above has gone meanwhile, trying again may help.
  if (!isAbsent(second) || !(await isFolder(above))) throw second;
  throw new ObjectStoreError(
    "ACCESS_DENIED",
    `mkdir ${path} failed (ENOENT): ${above} takes no new folders; use another directory`,
    { cause: second },
  );
}

/** What came of it: an error only where no folder is there afterwards. */
async function makeOne(path: string): Promise<"made" | "there" | Error> {
  try {
    await mkdir(path);
    return "made";
  } catch (error) {
    return (await isFolder(path)) ? "there" : (error as Error);
  }
}

const isAbsent = (error: Error): boolean => "code" in error && error.code === "ENOENT";

const isFolder = (path: string): Promise<boolean> =>
  stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  );
