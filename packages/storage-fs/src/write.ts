import { link, lstat, rename, unlink, type FileHandle } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import {
  bodyPieces,
  bodySize,
  ObjectStoreError,
  throwIfAborted,
  uniqueId,
  type Body,
  type PutOptions,
} from "@holdfast/object-store";
import { errno, isAbsent, isRefusal, makeFile, never, withFolder, type Io } from "./file-ops.js";
import { encodeTrailer } from "./trailer.js";

/** The folder of half-written files. No key's path can be in it, since an encoded name never starts with a dot. */
export const stagingName = ".staging";

/** A whole, durable file that no key names yet, with the file system's own time of its last write. */
export type Staged = { readonly path: string; readonly etag: string; readonly modifiedAtMs: number };

/**
 * Writes bytes and trailer into a file of the same file system and makes its content durable. What fails leaves no file behind, except
 * when the process is killed.
 */
export async function stage(
  io: Io,
  root: string,
  o: { readonly key: string; readonly body: Body; readonly options: PutOptions; readonly signal: AbortSignal },
  random: () => number,
): Promise<Staged> {
  const { key, body, options, signal } = o;
  const id = uniqueId(random);
  const { contentType } = options;
  const trailer = {
    key,
    etag: id,
    metadata: options.metadata ?? {},
    ...(contentType === undefined ? {} : { contentType }),
  };
  const end = encodeTrailer(trailer, bodySize(body));
  const path = join(root, stagingName, id);
  const file = await makeFile(io, path, signal);
  let modifiedAtMs = 0;
  try {
    try {
      for await (const piece of bodyPieces(body, { signal })) await writeFully(io, path, file, piece, signal);
      await writeFully(io, path, file, end, signal);
      await io("fdatasync", path, () => file.datasync(), signal);
      modifiedAtMs = (await io("stat", path, () => file.stat(), signal)).mtimeMs;
    } finally {
      await io("close", path, () => file.close(), never);
    }
  } catch (error) {
    await unstage(io, path);
    throw error;
  }
  return { path, etag: id, modifiedAtMs };
}

/** Removes a staged file; one that cannot be removed is left for the operator, since nothing depends on it. */
export async function unstage(io: Io, path: string): Promise<void> {
  await io("unlink", path, () => unlink(path), never).catch(() => undefined);
}

/** Writes all of it: a write may take less than it was given, without an error (the last one before the disk is full, say). */
async function writeFully(
  io: Io,
  path: string,
  file: FileHandle,
  piece: Uint8Array,
  signal: AbortSignal,
): Promise<void> {
  for (let at = 0; at < piece.byteLength;) {
    const { bytesWritten } = await io("write", path, () => file.write(piece, at, piece.byteLength - at), signal);
    // A write of nothing, without an error, would go on for ever.
    if (bytesWritten === 0) {
      throw new ObjectStoreError("UNAVAILABLE", `write ${path} took none of ${piece.byteLength - at} bytes; try again`);
    }
    at += bytesWritten;
  }
}

/** How far a put has come: `handed` from the turn in which the name is asked for, `nothing` again when that was refused. */
export type Progress = { state: "nothing" | "handed" };

/**
 * Gives a staged file the key's name and makes the name durable: by a hard link, which the file system refuses when the name is taken
 * (`"taken"`), or by a rename, which replaces. While `progress` says `nothing`, nothing has happened.
 *
 * `"open"`: the rename was answered that there is no staged file, and there is none. A network file system that repeats a request
 * whose answer it lost answers the second time so, since the first one has renamed it; but the file may as well have been removed. What is
 * at the name is durable, and a look at it may tell.
 */
export async function publish(
  io: Io,
  staged: Staged,
  target: string,
  o: { readonly mode: "create" | "overwrite"; readonly signal: AbortSignal; readonly progress: Progress },
): Promise<"named" | "taken" | "open"> {
  const act = o.mode === "create" ? link : rename;
  return withFolder(io, dirname(target), o.signal, async (folder) => {
    const hand = () => {
      throwIfAborted(o.signal);
      o.progress.state = "handed";
      return act(staged.path, join(folder.at, basename(target)));
    };
    let ended: "named" | "taken" | "open" = "named";
    try {
      await io(o.mode === "create" ? "link" : "rename", target, hand, o.signal);
    } catch (error) {
      if (o.mode === "create" && errno(error) === "EEXIST") ended = "taken";
      // A link leaves the staged file where it is, so a repeated one is answered EEXIST.
      else if (o.mode === "overwrite" && isAbsent(error) && (await isGone(io, staged.path))) ended = "open";
      else {
        if (isRefusal(error)) o.progress.state = "nothing";
        throw error;
      }
    }
    // Also when the name was taken: whoever took it may have been killed before this, and our answer says that it is there.
    await folder.sync();
    return ended;
  });
}

/** Whether a staged file is no longer there, as far as anybody can say: a look that fails leaves it open. */
async function isGone(io: Io, path: string): Promise<boolean> {
  return io("stat", path, () => lstat(path), never).then(
    () => false,
    () => true,
  );
}

/** Removes a key's file and makes that durable; one that is not there is fine, and so is a folder that is not. */
export async function remove(
  io: Io,
  path: string,
  o: { readonly signal: AbortSignal; readonly progress: Progress },
): Promise<void> {
  const work = withFolder(io, dirname(path), o.signal, async (folder) => {
    const hand = () => {
      throwIfAborted(o.signal);
      o.progress.state = "handed";
      return unlink(join(folder.at, basename(path)));
    };
    try {
      await io("unlink", path, hand, o.signal);
    } catch (error) {
      if (isRefusal(error)) o.progress.state = "nothing";
      if (!isAbsent(error)) throw error;
    }
    // Also when nothing was there: whoever deleted it may have been killed before this, and our answer says that it is gone.
    await folder.sync();
  });
  await work.catch((error: unknown) => {
    if (o.progress.state === "handed" || !isAbsent(error)) throw error;
  });
}
