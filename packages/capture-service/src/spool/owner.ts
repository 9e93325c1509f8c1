import { randomUUID } from "node:crypto";
import { createConnection, createServer, type Server } from "node:net";
import { link, open, readdir, rename, unlink, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { instantAfter, type Clock, type Instant } from "@holdfast/deadline-http";
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
 *   2. Then it connects to every other `owner-*.sock`. Only when none answers does it own the directory, until it closes its
 *      socket; it says so by a second name, `held-<random>.sock`, and removes the dead names.
 *   3. When one answers that holds, it withdraws. When only other contenders answer, the one whose name is the least looks
 *      again, and the others withdraw and come back a little later.
 *
 * Two takers at once: each publishes before it looks. Of two that both published, the one whose deciding look began later
 * looks after the other published and sees it alive. So at most one keeps the directory; step 3 only sees to it that one does
 * soon. Removing a dead name is safe at any time, because no live socket can ever have it: there is no moment at which one
 * taker's clean-up could remove another's claim.
 *
 * What it does not cover: a directory shared by two kernels (a network file system, a virtual machine's shared folder): those
 * are refused by kind, see suitability.ts; and a person who deletes the socket of a live owner.
 */
export interface Ownership {
  /** Gives the directory up. Call it after the last write. */
  release(): Promise<void>;
}

const ownerName = /^owner-([0-9a-f-]{36})\.sock$/;
const otherName = /^(?:held-|\.claim-)[0-9a-f-]{36}\.sock$/;
/** Contenders sort themselves out in some tens of milliseconds; what is alive after this long is not one. */
const patienceMs = 3_000;

/** Takes the directory, which must exist. SPOOL_IN_USE: another live process has it. SPOOL_UNSUITABLE: sockets do not work in it. */
export async function takeOwnership(
  directory: string,
  o: { clock: Clock; random: () => number; signal?: AbortSignal },
): Promise<Ownership> {
  const road = await roadTo(directory);
  try {
    const until = instantAfter(o.clock.now(), patienceMs);
    while (o.clock.now() < until) {
      const others = await look(road, null);
      if (others.held) break;
      const owner = others.live.length === 0 ? await contend(directory, road, { ...o, until }) : null;
      if (owner === "held") break;
      if (owner !== null) return owner;
      await o.clock.sleep(20 + Math.floor(o.random() * 60), o.signal === undefined ? {} : { signal: o.signal });
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

/** Publishes a claim and looks. Null: withdrawn, somebody else may have it. "held": somebody else has. */
async function contend(
  directory: string,
  road: Road,
  o: { clock: Clock; until: Instant },
): Promise<Ownership | "held" | null> {
  const id = randomUUID();
  const [hidden, name, held] = [`.claim-${id}.sock`, `owner-${id}.sock`, `held-${id}.sock`];
  const path = (leaf: string): string => join(directory, leaf);
  const server = await listen(road.path(hidden), directory);
  const withdraw = async (): Promise<void> => {
    await removeQuietly(path(held));
    await removeQuietly(path(name));
    await close(server);
  };
  try {
    await rename(path(hidden), path(name));
    for (;;) {
      const others = await look(road, id);
      if (others.live.length === 0) {
        // Nothing depends on the second name but how soon others give up.
        await link(path(name), path(held)).catch(() => undefined);
        for (const dead of others.dead) await removeQuietly(path(dead));
        return {
          release: async () => {
            await withdraw();
            await road.close();
          },
        };
      }
      const least = others.live.every((other) => id < other);
      if (others.held || !least || o.clock.now() >= o.until) {
        await withdraw();
        return others.held ? "held" : null;
      }
      await o.clock.sleep(10);
    }
  } catch (error) {
    await withdraw();
    // A rival may have swept the hidden name between bind and rename; the claim then never stood.
    if (codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

/** The ids of live sockets but `own`, whether one of them holds the directory, and all names whose sockets are dead. */
async function look(road: Road, own: string | null): Promise<{ live: string[]; held: boolean; dead: string[] }> {
  const live: string[] = [];
  const dead: string[] = [];
  let held = false;
  for (const name of await readdir(road.directory)) {
    const id = ownerName.exec(name)?.[1];
    if ((own !== null && name.includes(own)) || (id === undefined && !otherName.test(name))) continue;
    if ((await probe(road.path(name))) === "dead") dead.push(name);
    else if (id !== undefined) live.push(id);
    else if (name.startsWith("held-")) held = true;
  }
  return { live, held, dead };
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
