import { fsStore } from "@holdfast/storage-fs";
import { join } from "node:path";

/** The object store that holds the packs: a folder below `dir`, or a bucket. */
export async function openStore({ store, dir }) {
  if (store === "s3") return openS3Bucket();
  return store === "gcs" ? openGoogleBucket() : fsStore({ directory: join(dir, "objects") });
}

const names = ["URL", "BUCKET", "REGION", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY"].map((name) => `HOLDFAST_S3_${name}`);

async function openS3Bucket() {
  const missing = names.filter((name) => !process.env[name]);
  if (missing.length > 0) {
    throw new Error(
      `--store s3 needs a server: ${missing.join(", ")} not set (in the repository, npm run demo -- --store s3 starts one)`,
    );
  }
  const [endpoint, bucket, region, accessKeyId, secretAccessKey] = names.map((name) => process.env[name]);
  // The SDK would tell of the end of Node 20 in the middle of the screen.
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= "true";
  const { s3Store } = await import("@holdfast/storage-s3");
  return s3Store({
    storeId: `s3:${bucket}`, // not the endpoint, whose port may be another one next time
    endpoint,
    bucket,
    region,
    credentials: { accessKeyId, secretAccessKey },
    keyPrefix: "holdfast-demo/",
    allowHttp: new URL(endpoint).hostname === "127.0.0.1", // traffic that stays on this machine
    checksum: "md5", // what every store of the protocol checks
  });
}

async function openGoogleBucket() {
  const { HOLDFAST_GCS_BUCKET: bucket, STORAGE_EMULATOR_HOST: emulator } = process.env;
  if (!bucket) {
    throw new Error(
      "--store gcs needs a bucket: HOLDFAST_GCS_BUCKET is not set (in the repository, npm run demo -- --store gcs starts a fake)",
    );
  }
  const { gcsStore } = await import("@holdfast/storage-gcs");
  return gcsStore({
    storeId: `gcs:${bucket}`, // not the endpoint of an emulator, whose port may be another one next time
    bucket, // where it is and who asks, the SDK finds out: STORAGE_EMULATOR_HOST, GOOGLE_APPLICATION_CREDENTIALS
    keyPrefix: "holdfast-demo/",
    allowHttp: emulator !== undefined, // no token is sent to an emulator
  });
}
