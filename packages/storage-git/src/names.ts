import { ObjectStoreError } from "@holdfast/object-store";
import { folded } from "./paths.js";

/** How often a name is that of a folder and of a file. */
type Uses = { folders: number; files: number };

/**
 * The names of a tree, folders included, as file systems see them that ignore case and compose letters: for each such name the ways in which it is spelled.
 * A tree with two spellings of one name, or with a name that is both file and folder, cannot be checked out everywhere.
 */
export class NameIndex {
  readonly #spellings = new Map<string, Map<string, Uses>>();

  add(path: string): void {
    this.#count(path, 1);
  }

  remove(path: string): void {
    this.#count(path, -1);
  }

  /** Refuses, with `INVALID_KEY`, a file that is to be added at a path where it cannot stand beside what is there. */
  check(path: string): void {
    for (const { name, isFile } of namesOf(path)) {
      for (const [spelled, uses] of this.#spellings.get(folded(name)) ?? []) {
        const why = clash(spelled, name, isFile, uses);
        if (why !== null) throw new ObjectStoreError("INVALID_KEY", `${JSON.stringify(path)} ${why}`);
      }
    }
  }

  #count(path: string, by: number): void {
    for (const { name, isFile } of namesOf(path)) {
      const key = folded(name);
      const spellings = this.#spellings.get(key) ?? new Map<string, Uses>();
      const uses = spellings.get(name) ?? { folders: 0, files: 0 };
      uses[isFile ? "files" : "folders"] += by;
      this.#spellings.set(key, spellings);
      if (uses.folders + uses.files > 0) spellings.set(name, uses);
      else spellings.delete(name);
    }
  }
}

function clash(there: string, name: string, isFile: boolean, uses: Uses): string | null {
  if (there !== name) {
    const where = "on file systems that ignore case or compose letters";
    return `has ${JSON.stringify(name)}, which is one name with ${JSON.stringify(there)} ${where}; spell it as that one, or use another name`;
  }
  if (isFile && uses.folders > 0) return "is a folder on the branch; use another name, or remove what is in it";
  if (!isFile && uses.files > 0) {
    return `is below ${JSON.stringify(name)}, which is no folder on the branch; use another name, or remove that`;
  }
  return null;
}

/** `a/b/c`: the folders `a` and `a/b`, and the file. */
function namesOf(path: string): readonly { readonly name: string; readonly isFile: boolean }[] {
  const parts = path.split("/");
  return parts.map((_, i) => ({ name: parts.slice(0, i + 1).join("/"), isFile: i === parts.length - 1 }));
}
