import { compareKeys, type ObjectInfo, type ObjectStore } from "@holdfast/object-store";
import { infoOf, type Snapshot } from "./snapshot.js";

const noMetadata: Readonly<Record<string, string>> = Object.freeze({});

/** The objects of a listing: of one moment, since they are those of one commit. */
export async function* listFiles(
  at: Snapshot,
  o: Pick<Parameters<ObjectStore["list"]>[0], "prefix" | "startAfter">,
  limit: number,
): AsyncGenerator<ObjectInfo, void, undefined> {
  let left = limit;
  for (const file of at.files()) {
    if (!file.path.startsWith(o.prefix)) continue;
    if (o.startAfter !== undefined && compareKeys(file.path, o.startAfter) <= 0) continue;
    yield await Promise.resolve({ ...infoOf(file), metadata: noMetadata });
    if (--left === 0) return;
  }
}
