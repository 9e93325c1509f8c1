// Goal: a directory keeps the whole contract. Method: the conformance suite on fresh directories, with two stores on each.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "vitest";
import { fsStore } from "@holdfast/storage-fs";
import { objectStoreConformance } from "@holdfast/testkit/conformance";

describe("fsStore", () => {
  objectStoreConformance({ describe, it }, async () => {
    const above = await mkdtemp(join(tmpdir(), "holdfast-fs-"));
    const directory = join(above, "store");
    return {
      store: fsStore({ directory }),
      other: fsStore({ directory }),
      dispose: () => rm(above, { recursive: true }),
    };
  });
});
