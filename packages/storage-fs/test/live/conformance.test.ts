// Goal: a directory keeps the whole contract. Method: the conformance suite on fresh directories, with two stores on each.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";
import { fsStore } from "@holdfast/storage-fs";
import { objectStoreConformance, type Place } from "@holdfast/testkit/conformance";

describe("fsStore", () => {
  const open = async (): Promise<Place> => {
    const above = await mkdtemp(join(tmpdir(), "holdfast-fs-"));
    const directory = join(above, "store");
    return {
      store: fsStore({ directory }),
      other: fsStore({ directory }),
      dispose: () => rm(above, { recursive: true }),
    };
  };
  // Ends what hangs.
  objectStoreConformance({ describe, it }, open, { patienceMs: 300_000 });
});
