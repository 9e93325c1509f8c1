import { writeSync } from "node:fs";
import { basename } from "node:path";
import type { ObjectStore } from "@holdfast/object-store";
import { nodeFiles, type SpoolFile, type SpoolFiles } from "../../../packages/capture-service/src/spool/files.js";
import { parseName } from "../../../packages/capture-service/src/spool/names.js";
import { killedAt, type Orders } from "./boundaries.js";

/** Ends this process at the n-th time that it comes to a moment. Nothing is cleaned up, as by the kernel's OOM killer. */
export class Reaper {
  #left: number;
  #groups = 0;
  /** Put before each moment until the service has started. */
  starting = true;

  constructor(private readonly orders: Pick<Orders, "boundary" | "occurrence" | "afterGroups">) {
    this.#left = orders.occurrence;
  }

  /** A group of records was acknowledged, and whoever asked has been told. */
  acknowledged(): void {
    this.#groups += 1;
  }

  expects(moment: string): boolean {
    const { boundary, afterGroups } = this.orders;
    if (this.#groups < afterGroups) return false;
    return boundary === moment || (this.starting && boundary === `start: ${moment}`);
  }

  at(moment: string): void {
    if (!this.expects(moment)) return;
    this.#left -= 1;
    if (this.#left > 0) return;
    // The parent tells by this from what the process died.
    writeSync(2, killedAt(this.orders.boundary ?? ""));
    process.kill(process.pid, "SIGKILL");
    // The signal may take a moment; nothing more may happen in it.
    for (;;);
  }
}

function kindOf(path: string): string {
  const name = basename(path);
  return name.startsWith("holdfast-spool.json") ? "identity" : (parseName(name)?.kind ?? "directory");
}

/** The real file system, on which this process dies at its boundary. */
export function mortalFiles(reaper: Reaper): SpoolFiles {
  const files = nodeFiles();
  // A directory is synced for the sake of the name that was changed last.
  let lastKind = "directory";
  const around = async <T>(operation: string, kind: string, work: () => Promise<T>): Promise<T> => {
    reaper.at(`before ${operation} ${kind}`);
    const result = await work();
    reaper.at(`after ${operation} ${kind}`);
    return result;
  };
  const named = (operation: "link" | "rename", from: string, to: string): Promise<void> => {
    lastKind = kindOf(to);
    return around(operation, lastKind, () => files[operation](from, to));
  };
  return {
    ...files,
    open: async (path, mode) => {
      const kind = kindOf(path);
      const file = await around(mode === "read" ? "read" : "open", kind, () => files.open(path, mode));
      return mode === "read" ? file : mortalFile(file, path, reaper, around);
    },
    link: (from, to) => named("link", from, to),
    rename: (from, to) => named("rename", from, to),
    unlink: (path) => around("unlink", kindOf(path), () => files.unlink(path)),
    syncDirectory: (path) => around("syncDirectory", lastKind, () => files.syncDirectory(path)),
  };
}

function mortalFile(
  file: SpoolFile,
  path: string,
  reaper: Reaper,
  around: <T>(operation: string, kind: string, work: () => Promise<T>) => Promise<T>,
): SpoolFile {
  // A pack file is begun and becomes open with its first commit; what the handle was opened as says too little.
  let commits = 0;
  const kind = (): string => {
    const opened = kindOf(path);
    return opened === "begun" && commits > 0 ? "open" : opened;
  };
  return {
    ...file,
    write: async (bytes, offset, length, position) => {
      const at = kind();
      if (reaper.expects(`during write ${at}`) && length > 1000) {
        await file.write(bytes, offset, length >> 1, position);
        reaper.at(`during write ${at}`);
      }
      return around("write", at, () => file.write(bytes, offset, length, position));
    },
    datasync: async () => {
      await around("datasync", kind(), () => file.datasync());
      commits += 1;
    },
  };
}

/** A store on which this process dies at its boundary. */
export function mortalStore(store: ObjectStore, reaper: Reaper): ObjectStore {
  const around = async <T>(operation: string, work: () => Promise<T>): Promise<T> => {
    reaper.at(`before ${operation}`);
    const result = await work();
    reaper.at(`after ${operation}`);
    return result;
  };
  return {
    contract: store.contract,
    storeId: store.storeId,
    capabilities: store.capabilities,
    put: (...args) => around("put", () => store.put(...args)),
    get: (...args) => around("get", () => store.get(...args)),
    head: (...args) => around("head", () => store.head(...args)),
    list: (...args) => store.list(...args),
    delete: (...args) => store.delete(...args),
  };
}
