// The stores that `npm run conformance -- BACKEND` knows. To add one: a file beside this one that exports a Backend, and a line below.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { memoryStore } from "@holdfast/object-store";
import { fsStore } from "@holdfast/storage-fs";
import type { CaseId, Place } from "@holdfast/testkit/conformance";
import { gcs } from "./gcs.js";
import { git } from "./git.js";
import { s3 } from "./s3.js";

/** A store to run the suite on. */
export type Backend = {
  /** A place with nothing in it, for one case. */
  open(): Promise<Place>;
  /** What is known to be otherwise, with the reason. */
  readonly knownDeviations?: Readonly<Record<CaseId, string>>;
  /** Stops what `begin` of it started. */
  end?(): Promise<void>;
};

const memory = (): Promise<Backend> =>
  Promise.resolve({ open: () => Promise.resolve({ store: memoryStore(), dispose: () => Promise.resolve() }) });

/** A fresh directory per case below the machine's temporary folder (TMPDIR), two stores on each. */
const fs = (): Promise<Backend> =>
  Promise.resolve({
    async open() {
      const above = await mkdtemp(join(tmpdir(), "holdfast-conformance-"));
      const directory = join(above, "store");
      const dispose = (): Promise<void> => rm(above, { recursive: true, force: true });
      return { store: fsStore({ directory }), other: fsStore({ directory }), dispose };
    },
  });

/** By name, each begun when it is asked for. */
export const backends: Readonly<Record<string, () => Promise<Backend>>> = { memory, fs, s3, gcs, git };
