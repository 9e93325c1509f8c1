import { checkKey, ObjectStoreError } from "@holdfast/object-store";

/** The longest path, in bytes of UTF-8: what every file system takes as one name, so that each path can be checked out somewhere. */
export const maxPathBytes = 255;

/** Characters that HFS+ ignores in names: with one of them inside, `.git` is still `.git` there. */
const ignoredByHfs = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/gu;
/** What Windows takes for the repository's own folder or a file that git trusts, whatever follows after a colon or spaces and dots. */
const reservedName = /^(?:\.git|git~[0-9]+|\.gitmodules|gitmod~[0-9]+)(?:[ .]*$|[ .]*:)/;

const refuse = (path: string, what: string): never => {
  throw new ObjectStoreError("INVALID_KEY", `${JSON.stringify(path)} ${what}`);
};

/**
 * Refuses, with `INVALID_KEY`, what is not the path of a file that everyone can check out: what `checkKey` refuses, over {@link maxPathBytes},
 * an empty part (a slash at either end, two beside each other), `.` and `..`, a backslash, and any spelling of `.git` and `.gitmodules` that some file
 * system takes for these.
 */
export function checkPath(path: string): void {
  checkKey(path, maxPathBytes);
  if (path.includes("\\")) {
    refuse(path, "has a backslash, which separates folders on Windows; leave it out");
  }
  for (const part of path.split("/")) {
    if (part === "")
      refuse(path, "has an empty name between slashes or at an end; git has no such path: leave the slash out");
    if (part === "." || part === "..")
      refuse(path, `leads elsewhere by ${JSON.stringify(part)}; give the path from the root of the branch`);
    if (reservedName.test(part.replace(ignoredByHfs, "").toLowerCase())) {
      refuse(path, `has the name ${JSON.stringify(part)}, which git keeps for itself; use another name`);
    }
  }
}

/** What a file system that ignores case and composes letters makes of a path: equal for two paths that are one there. */
export function folded(path: string): string {
  return path.normalize("NFD").toUpperCase().toLowerCase().normalize("NFC");
}
