// The tests of test/gcs with @google-cloud/storage 8; a file for each major and part, so that they run side by side.
import { describe } from "vitest";
import { bounds } from "../gcs/bounds.js";
import { vendorOf } from "../support/gcs.js";

const vendor = await vendorOf(8);

describe.skipIf(vendor.Storage === null)(vendor.name, () => {
  bounds(vendor);
});
