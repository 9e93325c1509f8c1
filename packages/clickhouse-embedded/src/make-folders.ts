import { mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path";

/**
 * Makes a folder and those above it that are missing, one level at a time; one that is there, or that somebody else makes meanwhile, is
 * fine. Rejects with the system's error. Node's own `recursive` never returns below a folder that refuses children with ENOENT, as /proc does.
 */
export async function makeFolders(path: string): Promise<void> {
  const first = await makeOne(path);
  if (first === null) return;
  if ((first as NodeJS.ErrnoException).code !== "ENOENT" || dirname(path) === path) throw first;
  await makeFolders(dirname(path));
  const second = await makeOne(path);
  if (second !== null) throw second;
}

/** Null when the folder is there now, otherwise why it is not. */
async function makeOne(path: string): Promise<Error | null> {
  try {
    await mkdir(path);
    return null;
  } catch (error) {
    const there = await stat(path).then(
      (found) => found.isDirectory(),
      () => false,
    );
    return there ? null : (error as Error);
  }
}
