import { randomUUID } from "node:crypto";
import { createConnection, createServer, type Server } from "node:net";
import { open, rename, unlink, readdir, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import type { Clock } from "@holdfast/deadline-http";
import { CaptureError, codeOf } from "../errors.js";

/**
 * One owner per directory, held by a listening Unix socket in it.
 *
 * The kernel keeps the socket alive exactly as long as the process: after SIGKILL a connection to its file is refused, with
 * nothing to clean up and no process id to compare (in containers everyone may be pid 1). The kernel also answers for a
 * process that is stopped or busy, because a connection waits in the listen queue without the process doing anything.
 *
 *   1. A contender binds a hidden name of its own, listens, and only then renames it to `owner-<random>.sock`. So whatever is
 *      seen under such a name has been listening: refused means dead, for good, since names are never used twice.
 *   2. Then it connects to every other `owner-*.sock`. If one answers, it withdraws (unlinks its own).
 *   3. If none answers it owns the directory until it closes its socket, and removes the dead names.
 *
 * Two takers at once: each publishes before it looks. Of two that both published, the one whose look began later looks after
 * the other published and sees it alive. So at most one keeps the directory; both may withdraw, and then each waits a random
 * while and tries again. Removing a dead name is safe at any time, because no live socket can ever have it: there is no
 * moment at which one taker's clean-up could remove another's claim.
 *
 * What it does not cover: a directory shared by two kernels (a network file system, a virtual machine's shared folder): those
 * are refused by kind, see suitability.ts; and a person who deletes the socket of a live owner.
 */
export interface Ownership {
  /** Gives the directory up. Call it after the last write. */
  release(): Promise<void>;
}

const ownerName = /^owner-[0-9a-f-]{36}\.sock$/;
const claimName = /^\.claim-[0-9a-f-]{36}\.sock$/;
const attempts = 6;

/** Takes the directory, which must exist. SPOOL_IN_USE: another live process has it. SPOOL_UNSUITABLE: sockets do not work in it. */
export async function takeOwnership(
  directory: string,
  o: { clock: Clock; random: () => number; signal?: AbortSignal },
): Promise<Ownership> {
  const road = await roadTo(directory);
  try {
    for (let attempt = 1; ; attempt += 1) {
      const owner = await tryOnce(directory, road);
      if (owner !== null) return owner;
      if (attempt === attempts) break;
      // A contender that is about to withdraw looks alive for a moment, so one look does not decide.
      const wait = { ...(o.signal === undefined ? {} : { signal: o.signal }) };
      await o.clock.sleep(20 + Math.floor(o.random() * 60 * attempt), wait);
    }
  } catch (error) {
    await road.close();
    throw error;
  }
  await road.close();
  throw new CaptureError(
    "SPOOL_IN_USE",
    `spool.directory ${directory} is owned by another live service. One service owns a spool directory at a time: ` +
      `stop that one, or give this one a directory of its own.`,
  );
}

async function tryOnce(directory: string, road: Road): Promise<Ownership | null> {
  const others = await liveOthers(road, null);
  if (others.live > 0) return null;
  const id = randomUUID();
  const hidden = `.claim-${id}.sock`;
  const name = `owner-${id}.sock`;
  const server = await listen(road.path(hidden), directory);
  let mine = false;
  try {
    await rename(join(directory, hidden), join(directory, name));
    const seen = await liveOthers(road, name);
    mine = seen.live === 0;
    if (mine) {
      for (const dead of seen.dead) await removeQuietly(join(directory, dead));
    }
  } catch (error) {
    // A rival may have swept the hidden name between bind and rename; the claim then never stood.
    if (codeOf(error) !== "ENOENT") throw error;
  } finally {
    if (!mine) {
      await removeQuietly(join(directory, name));
      await close(server);
    }
  }
  if (!mine) return null;
  return {
    release: async () => {
      await removeQuietly(join(directory, name));
      await close(server);
      await road.close();
    },
  };
}

async function liveOthers(road: Road, own: string | null): Promise<{ live: number; dead: string[] }> {
  let live = 0;
  const dead: string[] = [];
  for (const name of await readdir(road.directory)) {
    if (name === own) continue;
    if (claimName.test(name)) {
      // Not yet claims: they decide nothing. Those of killed contenders are swept by the next owner.
      if ((await probe(road.path(name))) === "dead") dead.push(name);
    } else if (ownerName.test(name)) {
      if ((await probe(road.path(name))) === "dead") dead.push(name);
      else live += 1;
    }
  }
  return { live, dead };
}

/** Only a refused connection, or no file, proves death; whatever else happens counts as alive. */
function probe(path: string): Promise<"live" | "dead"> {
  return new Promise((resolve) => {
    const socket = createConnection(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve("live");
    });
    socket.once("error", (error: NodeJS.ErrnoException) => {
      socket.destroy();
      resolve(error.code === "ECONNREFUSED" || error.code === "ENOENT" ? "dead" : "live");
    });
  });
}

function listen(path: string, directory: string): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy());
    server.once("error", (error: NodeJS.ErrnoException) => {
      reject(unsuitable(directory, error));
    });
    // exclusive: in a cluster worker the socket would otherwise live in the primary and outlast the worker.
    server.listen({ path, exclusive: true }, () => {
      server.unref();
      resolve(server);
    });
  });
}

function unsuitable(directory: string, error: NodeJS.ErrnoException): CaptureError {
  const code = error.code ?? "unknown";
  const unwritable = ["EACCES", "EROFS", "ENOSPC", "EPERM"].includes(code);
  return new CaptureError(
    unwritable ? "SPOOL_UNWRITABLE" : "SPOOL_UNSUITABLE",
    unwritable
      ? `spool.directory ${directory} cannot be written (${code}). Give the process write access to it, or name another one.`
      : `spool.directory ${directory} is on a file system where a Unix socket cannot be bound (${code}), so one owner at a ` +
          `time cannot be assured there. Use a directory on a local disk.`,
    { cause: error },
  );
}

async function removeQuietly(path: string): Promise<void> {
  try {
    await unlink(path);
  } catch {
    // Gone already, or not removable: a dead socket that stays hurts nobody.
  }
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()));
}

/** How sockets in the directory are addressed. */
interface Road {
  readonly directory: string;
  path(name: string): string;
  close(): Promise<void>;
}

/**
 * The address of a Unix socket holds about 104 bytes. A deeper directory is reached through an open descriptor of it on
 * Linux; elsewhere it is refused with advice by the bind.
 */
async function roadTo(directory: string): Promise<Road> {
  const direct = { directory, path: (name: string) => join(directory, name), close: async () => {} };
  if (Buffer.byteLength(directory) <= 50 || process.platform !== "linux") return direct;
  let handle: FileHandle | null = await open(directory, "r");
  const { fd } = handle;
  return {
    directory,
    path: (name) => `/proc/self/fd/${fd}/${name}`,
    close: async () => {
      await handle?.close();
      handle = null;
    },
  };
}
