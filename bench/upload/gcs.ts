// The emulator that STORAGE_EMULATOR_HOST names; `npm run bench` starts testkit's fake, in a process of its own, where none is named. Both upload
// in one request and have the bytes compared by CRC-32C. The fake computes MD5 and CRC-32C in JavaScript, so it takes a good part of the time of
// both; what the real service would give cannot be seen here.
import { pipeline } from "node:stream/promises";
import { Storage } from "@google-cloud/storage";
import { gcsStore } from "@holdfast/storage-gcs";
import { reading, type OpenTarget } from "./target.js";

export const openGcs: OpenTarget = (keyPrefix) => {
  const { STORAGE_EMULATOR_HOST: endpoint, HOLDFAST_GCS_BUCKET: bucket } = process.env;
  if (endpoint === undefined || bucket === undefined) {
    throw new Error(
      "STORAGE_EMULATOR_HOST and HOLDFAST_GCS_BUCKET are not set; npm run bench -- upload --store gcs sets them",
    );
  }
  const theirs = new Storage({ apiEndpoint: endpoint, projectId: "bench" }).bucket(bucket);
  return {
    endpoint,
    store: gcsStore({ apiEndpoint: endpoint, bucket, keyPrefix, allowHttp: true }),
    async bare(key, path) {
      const file = theirs.file(keyPrefix + key, { preconditionOpts: { ifGenerationMatch: 0 } });
      // As bucket.upload does it, with the pieces that ours reads.
      await pipeline(reading(path), file.createWriteStream({ resumable: false, validation: "crc32c" }));
    },
    stop: () => undefined,
  };
};
