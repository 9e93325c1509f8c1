/**
 * How a key becomes a path of names that every file system can take, and back.
 *
 * - The key is cut at its first 16 `/` (what is deeper stays in one name: a key may be 1024 slashes, and a folder costs a sync and a
 *   look); every part but the last is a folder, the last is a file. A file's name ends in `@obj` and a
 *   folder's does not, so `a` and `a/b` live side by side. An empty part (`//`, a leading or trailing `/`) is the folder `@` or
 *   the file `@obj`.
 * - `a-z 0-9 . _ = -` stand for themselves, except a `.` at the start of a part. A capital letter is `^` and the small one, so
 *   that `A` and `a` differ where file systems ignore case. Every other byte of the UTF-8 is `%` and two hex digits, so that
 *   composed and decomposed letters differ where file systems normalise. `.` and `..` can therefore not occur, nor a hidden name.
 * - A part of more than 240 such characters is cut between characters; each piece but the last is a folder ending in `@more`, and
 *   each but the first starts with `+`, so that a piece of dots is no way out of the folder.
 *
 * Every key has one path and no other path stands for it.
 */
import { join } from "node:path";

const utf8 = new TextEncoder();
// ignoreBOM keeps a leading U+FEFF in the text instead of swallowing it.
const strictUtf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const pieceLength = 240;
const folderDepth = 16;
const plain = /^[a-z0-9_=-][a-z0-9._=-]*$/;

/** A name in a folder of the store: what it stands for, still encoded. */
export type Name = { readonly kind: "object" | "folder" | "more"; readonly encoded: string };

/** The absolute path of the file that holds a key. The key must have passed `checkKey`. */
export function objectPath(root: string, key: string): string {
  const folders = folderParts(key);
  const { before, last } = pieceNames(encodePart(key.split("/").slice(folders.length).join("/")));
  return join(root, ...folders.flatMap(folderNames), ...before, `${last}@obj`);
}

/** The absolute path of the folder of all keys that start with `prefix`, which is empty or ends in `/`. */
export function folderPath(root: string, prefix: string): string {
  return join(root, ...folderParts(prefix).flatMap(folderNames));
}

/** The start of a prefix that is a folder of its own: what all keys in the folder have in common. */
export function folderPrefix(prefix: string): string {
  return folderParts(prefix)
    .map((part) => `${part}/`)
    .join("");
}

const folderParts = (prefix: string): string[] => prefix.split("/").slice(0, -1).slice(0, folderDepth);

function folderNames(part: string): string[] {
  const { before, last } = pieceNames(encodePart(part));
  return [...before, last === "" ? "@" : last];
}

/** What a name in a folder, or inside a cut name, is; `null` when the store does not write such names there. */
export function parseName(written: string, insideCutName: boolean): Name | null {
  if (written.startsWith(".") || written.startsWith("+") !== insideCutName) return null;
  const name = insideCutName ? written.slice(1) : written;
  if (name.endsWith("@obj")) return { kind: "object", encoded: name.slice(0, -4) };
  if (name.endsWith("@more")) return { kind: "more", encoded: name.slice(0, -5) };
  if (name === "@") return { kind: "folder", encoded: "" };
  return { kind: "folder", encoded: name };
}

/** The part of a key that an encoded text stands for, or `null` when it stands for none. */
export function decodePart(encoded: string): string | null {
  if (encoded === "" || plain.test(encoded)) return encoded;
  const bytes: number[] = [];
  for (let i = 0; i < encoded.length; i++) {
    const char = encoded.charAt(i);
    if (char === "^") bytes.push(encoded.charCodeAt(++i) - 0x20);
    else if (char === "%") bytes.push(parseInt(encoded.slice(i + 1, (i += 2) + 1), 16));
    else bytes.push(char.charCodeAt(0));
  }
  try {
    const part = strictUtf8.decode(Uint8Array.from(bytes));
    // Anything but the one spelling that we write is foreign: two names for one key would list it twice.
    return encodePart(part) === encoded ? part : null;
  } catch {
    return null;
  }
}

function encodePart(part: string): string {
  if (plain.test(part)) return part;
  let encoded = "";
  for (const byte of utf8.encode(part)) encoded += encodeByte(byte, encoded === "");
  return encoded;
}

function encodeByte(byte: number, first: boolean): string {
  const char = String.fromCharCode(byte);
  if (char === "." && first) return "%2e";
  if (/[a-z0-9._=-]/.test(char)) return char;
  if (/[A-Z]/.test(char)) return `^${char.toLowerCase()}`;
  return `%${byte.toString(16).padStart(2, "0")}`;
}

/** Cuts an encoded part into names that fit a file system, never inside a `%xx` or `^x`. */
function pieceNames(encoded: string): { before: string[]; last: string } {
  const before: string[] = [];
  let rest = encoded;
  const mark = () => (before.length === 0 ? "" : "+");
  while (rest.length > pieceLength) {
    const end = rest.slice(pieceLength - 2, pieceLength);
    const back = end.startsWith("%") ? 2 : end.endsWith("%") || end.endsWith("^") ? 1 : 0;
    before.push(`${mark()}${rest.slice(0, pieceLength - back)}@more`);
    rest = rest.slice(pieceLength - back);
  }
  return { before, last: mark() + rest };
}
