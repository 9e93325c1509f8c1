import { basename, dirname } from "node:path";
import type { Entry, SpoolFile, SpoolFiles } from "../../src/spool/files.js";

/** What a call does, for tests that interfere: `bytes` is the length of a write. */
export type Operation = {
  readonly name: "open" | "write" | "read" | "datasync" | "truncate" | "link" | "rename" | "unlink" | "syncDirectory";
  readonly path: string;
  readonly bytes?: number;
};

type Inode = { data: Uint8Array; durable: Uint8Array };
type Directory = { readonly names: Map<string, Inode>; durable: Map<string, Inode> };

/** Thrown by every call after the machine has stopped. */
export class MachineStopped extends Error {
  readonly code = "STOPPED_MACHINE";
}

/**
 * A file system in memory that knows what would survive a power loss: file data as of its last datasync, names as of the
 * last sync of their directory. `interfere` runs before each call and may throw, or answer how many bytes a write takes.
 */
export class PowerFiles implements SpoolFiles {
  readonly #directories = new Map<string, Directory>();
  readonly trace: Operation[] = [];
  interfere: (operation: Operation, index: number) => number | undefined = () => undefined;
  /** Whether a datasync that fails has brought everything to the disk all the same. */
  failedSyncPersists: () => boolean = () => false;
  /** Mutants: a spool that does not sync what it should must lose records under this layer. */
  ignore: { datasync?: boolean; syncDirectory?: boolean } = {};

  /** What a machine finds that lost its power now. `torn` decides for each thing not synced whether it survived. */
  afterPowerLoss(torn: () => boolean = () => false): PowerFiles {
    const next = new PowerFiles();
    const seen = new Map<Inode, Inode>();
    const copy = (inode: Inode): Inode => {
      let twin = seen.get(inode);
      if (twin === undefined) {
        const data = torn() ? this.#tornData(inode, torn) : inode.durable.slice();
        seen.set(inode, (twin = { data, durable: data.slice() }));
      }
      return twin;
    };
    for (const [path, directory] of this.#directories) {
      const names = new Map<string, Inode>();
      for (const name of new Set([...directory.durable.keys(), ...directory.names.keys()])) {
        const [now, before] = [directory.names.get(name), directory.durable.get(name)];
        const inode = now === before || !torn() ? before : now;
        if (inode !== undefined) names.set(name, copy(inode));
      }
      next.#directories.set(path, { names, durable: new Map(names) });
    }
    return next;
  }

  /** What a process finds that follows one that was killed: everything that was written. */
  afterKill(): PowerFiles {
    const next = new PowerFiles();
    for (const [path, directory] of this.#directories) next.#directories.set(path, directory);
    return next;
  }

  names(directory: string): string[] {
    return [...(this.#directories.get(directory)?.names.keys() ?? [])].sort();
  }
  content(path: string): Uint8Array {
    return this.#inode(path).data;
  }
  put(path: string, data: Uint8Array): void {
    const directory = this.#directory(dirname(path));
    const inode = { data: data.slice(), durable: data.slice() };
    directory.names.set(basename(path), inode);
    directory.durable.set(basename(path), inode);
  }
  totalBytes(directory: string): number {
    const inodes = new Set(this.#directories.get(directory)?.names.values() ?? []);
    return [...inodes].reduce((sum, inode) => sum + inode.data.byteLength, 0);
  }

  async open(path: string, mode: "create" | "read" | "update"): Promise<SpoolFile> {
    await this.#step({ name: "open", path });
    const directory = this.#directory(dirname(path));
    const known = directory.names.get(basename(path));
    if (mode === "create") {
      if (known !== undefined) throw systemError("EEXIST", path);
      const inode = { data: new Uint8Array(), durable: new Uint8Array() };
      directory.names.set(basename(path), inode);
      return this.#file(path, inode);
    }
    if (known === undefined) throw systemError("ENOENT", path);
    return this.#file(path, known);
  }

  async list(directory: string): Promise<Entry[]> {
    return [...this.#directory(directory).names].map(([name, { data }]) => ({
      name,
      bytes: data.byteLength,
      isFile: true,
    }));
  }
  async link(from: string, to: string): Promise<void> {
    await this.#step({ name: "link", path: to });
    const directory = this.#directory(dirname(to));
    if (directory.names.has(basename(to))) throw systemError("EEXIST", to);
    directory.names.set(basename(to), this.#inode(from));
  }
  async rename(from: string, to: string): Promise<void> {
    await this.#step({ name: "rename", path: to });
    const inode = this.#inode(from);
    const directory = this.#directory(dirname(to));
    directory.names.delete(basename(from));
    directory.names.set(basename(to), inode);
  }
  async unlink(path: string): Promise<void> {
    await this.#step({ name: "unlink", path });
    this.#inode(path);
    this.#directory(dirname(path)).names.delete(basename(path));
  }
  async makeDirectory(path: string): Promise<void> {
    if (!this.#directories.has(path)) this.#directories.set(path, { names: new Map(), durable: new Map() });
  }
  async syncDirectory(path: string): Promise<void> {
    await this.#step({ name: "syncDirectory", path });
    const directory = this.#directories.get(path);
    if (directory === undefined || this.ignore.syncDirectory === true) return;
    directory.durable = new Map(directory.names);
  }
  async fileSystemType(): Promise<number> {
    return 0xef53;
  }

  #file(path: string, inode: Inode): SpoolFile {
    return {
      write: async (bytes, offset, length, position) => {
        const taken = Math.min(length, (await this.#step({ name: "write", path, bytes: length })) ?? length);
        const end = position + taken;
        if (end > inode.data.byteLength) inode.data = grown(inode.data, end);
        inode.data.set(bytes.subarray(offset, offset + taken), position);
        return taken;
      },
      read: async (into, offset, length, position) => {
        await this.#step({ name: "read", path });
        const piece = inode.data.subarray(position, position + length);
        into.set(piece, offset);
        return piece.byteLength;
      },
      datasync: async () => {
        try {
          await this.#step({ name: "datasync", path });
        } catch (error) {
          if (this.failedSyncPersists()) inode.durable = inode.data.slice();
          throw error;
        }
        if (this.ignore.datasync !== true) inode.durable = inode.data.slice();
      },
      truncate: async (length) => {
        await this.#step({ name: "truncate", path });
        inode.data = inode.data.slice(0, length);
      },
      size: async () => inode.data.byteLength,
      close: async () => undefined,
    };
  }

  async #step(operation: Operation): Promise<number | undefined> {
    const index = this.trace.push(operation) - 1;
    await Promise.resolve();
    return this.interfere(operation, index);
  }

  #tornData(inode: Inode, torn: () => boolean): Uint8Array {
    const data = inode.data.slice();
    // Blocks of 512 bytes reach the disk in any order; what did not reads as zeros, or as it was.
    for (let at = 0; at < data.byteLength; at += 512) {
      if (torn()) continue;
      const end = Math.min(at + 512, data.byteLength);
      for (let i = at; i < end; i += 1) data[i] = inode.durable[i] ?? 0;
    }
    // Nothing that was synced can be lost.
    data.set(inode.durable.subarray(0, Math.min(inode.durable.byteLength, data.byteLength)));
    return data;
  }
  #directory(path: string): Directory {
    const directory = this.#directories.get(path);
    if (directory === undefined) throw systemError("ENOENT", path);
    return directory;
  }
  #inode(path: string): Inode {
    const inode = this.#directory(dirname(path)).names.get(basename(path));
    if (inode === undefined) throw systemError("ENOENT", path);
    return inode;
  }
}

function grown(data: Uint8Array, length: number): Uint8Array {
  const larger = new Uint8Array(length);
  larger.set(data);
  return larger;
}

export function systemError(code: string, path: string): Error {
  return Object.assign(new Error(`${code}: ${path}`), { code });
}
