import { createHash } from "node:crypto";
import type { Body } from "@holdfast/object-store";
import { readUpTo, type SpoolFiles } from "./files.js";

const pieceBytes = 1024 * 1024;

async function* pieces(files: SpoolFiles, path: string, size: number): AsyncGenerator<Uint8Array> {
  const file = await files.open(path, "read");
  try {
    for (let at = 0; at < size; at += pieceBytes) {
      const piece = await readUpTo(file, at, Math.min(pieceBytes, size - at));
      if (piece.byteLength === 0) return;
      yield piece;
    }
  } finally {
    await file.close();
  }
}

/** A file as a body of an upload: read in pieces, so that memory does not grow with the pack. */
export function fileBody(files: SpoolFiles, path: string, size: number): Body {
  return { size, open: () => pieces(files, path, size) };
}

/** Whether the file has exactly these bytes. Hashes a piece at a time: none keeps the event loop for more than a few ms. */
export async function fileIsIntact(
  files: SpoolFiles,
  path: string,
  expected: { readonly bytes: number; readonly sha256: string },
  signal: AbortSignal,
): Promise<boolean> {
  const hash = createHash("sha256");
  let bytes = 0;
  for await (const piece of pieces(files, path, expected.bytes + 1)) {
    signal.throwIfAborted();
    hash.update(piece);
    bytes += piece.byteLength;
  }
  return bytes === expected.bytes && hash.digest("hex") === expected.sha256;
}
