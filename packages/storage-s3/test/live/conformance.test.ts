// Goal: the contract of object stores on a real S3 server. Method: every case of the conformance suite, in a bucket of this file that is
// emptied after each. No deviation is known.
import { describe, it } from "vitest";
import { objectStoreConformance } from "@holdfast/testkit/conformance";
import { bucketOfThisFile, empty, openStore, server } from "../support/rgw.js";

describe.skipIf(server === null)("s3Store on a real server", () => {
  const bucket = bucketOfThisFile();
  objectStoreConformance({ describe, it }, async () => {
    const store = openStore({ bucket });
    return { store, other: openStore({ bucket }), dispose: () => empty(store) };
  });
});
