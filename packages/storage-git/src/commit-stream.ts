import type { KeptObject } from "./message.js";

/** What a commit does to one path. */
export type Change =
  | { readonly do: "write"; readonly bytes: Uint8Array; readonly executable: boolean; readonly kept: KeptObject | null }
  | { readonly do: "remove" };
/** Path -> what is done to it. */
export type Changes = ReadonlyMap<string, Change>;

/** A commit to be made. `parent` null: the first of its branch. */
export type NewCommit = {
  readonly parent: string | null;
  readonly changes: Changes;
  readonly message: string;
  readonly author: { readonly name: string; readonly email: string };
  readonly atSeconds: number;
};

/** The name under which the clone keeps the newest commit that was made in it; nothing is ever pushed by this name. */
const ref = "refs/holdfast/made";

/**
 * The input of `git fast-import` that makes one commit and prints its id. Objects come into being before the commit that needs them, and no index
 * or file of a work tree is touched, so nothing of a killed writer can be taken for part of a later commit.
 */
export function commitStream(commit: NewCommit): readonly Uint8Array[] {
  const { parent, changes, message, author, atSeconds } = commit;
  const by = `${author.name} <${author.email}> ${atSeconds} +0000`;
  // Reset first: without a parent of its own, a commit would be put on top of what the name stood for.
  const head = `reset ${ref}\n\ncommit ${ref}\nmark :1\nauthor ${by}\ncommitter ${by}\n`;
  const from = parent === null ? "" : `from ${parent}\n`;
  const pieces: Uint8Array[] = [utf8(head), ...data(utf8(message)), utf8(from)];
  // Removals first: a file may take the place of a folder that is emptied by the same commit.
  for (const [path, change] of changes) if (change.do === "remove") pieces.push(utf8(`D ${quoted(path)}\n`));
  for (const [path, change] of changes) {
    if (change.do !== "write") continue;
    const mode = change.executable ? "100755" : "100644";
    pieces.push(utf8(`M ${mode} inline ${quoted(path)}\n`), ...data(change.bytes));
  }
  pieces.push(utf8("\nget-mark :1\ndone\n"));
  return pieces;
}

const utf8 = (text: string): Uint8Array => Buffer.from(text, "utf8");
const data = (bytes: Uint8Array): readonly Uint8Array[] => [utf8(`data ${bytes.byteLength}\n`), bytes, utf8("\n")];
const quoted = (path: string): string => `"${path.replace(/["\\]/g, "\\$&")}"`;
