// The tests of test/gcs with @google-cloud/storage 7; a file for each major and part, so that they run side by side.
import { describe } from "vitest";
import { uploads } from "../gcs/uploads.js";
import { storage } from "../gcs/storage.js";
import { vendorOf } from "../support/gcs.js";

const vendor = await vendorOf(7);

describe.skipIf(vendor.Storage === null)(vendor.name, () => {
  uploads(vendor);
  storage(vendor);
});
