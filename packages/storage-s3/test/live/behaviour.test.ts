// Goal: the contract of object stores on a real S3 server. Method: every case of the suite in a bucket of this file, emptied after each;
// then again the cases that a key prefix could break, under one.
import { describe, it, vi } from "vitest";
import { objectStoreBehaviour } from "../../../object-store/test/behaviour/suite.js";
import { bucketOfThisFile, empty, openStore, server } from "../support/rgw.js";

vi.mock("@aws-sdk/client-s3", async () => (await import("../support/sdk.js")).sdk);

describe.skipIf(server === null)("s3Store on a real server", () => {
  const bucket = bucketOfThisFile();
  objectStoreBehaviour({ describe, it }, async () => {
    const store = openStore({ bucket });
    return { store, other: openStore({ bucket }), dispose: () => empty(store) };
  });
});
