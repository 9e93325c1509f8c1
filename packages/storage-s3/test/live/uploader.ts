// A process to be killed: puts one object in parts, and stops in the middle of its body, with parts of it on the server.
import { s3Store } from "@holdfast/storage-s3";

const MiB = 2 ** 20;
const { env } = process;
const [bucket = "", keyPrefix = ""] = process.argv.slice(2);
const store = s3Store({
  endpoint: env["HOLDFAST_S3_URL"] ?? "",
  region: env["HOLDFAST_S3_REGION"] ?? "us-east-1",
  bucket,
  keyPrefix,
  allowHttp: true,
  multipart: { thresholdBytes: 65 * MiB, partBytes: 5 * MiB, concurrency: 1 },
  credentials: {
    accessKeyId: env["HOLDFAST_S3_ACCESS_KEY_ID"] ?? "",
    secretAccessKey: env["HOLDFAST_S3_SECRET_ACCESS_KEY"] ?? "",
  },
});
const body = {
  size: 66 * MiB,
  async *open() {
    // One part at a time: asked for the fourth, it has an answer to the second.
    for (let i = 0; i < 3; i++) yield new Uint8Array(5 * MiB);
    process.stdout.write("parts are there\n");
    await new Promise(() => setInterval(() => undefined, 60_000));
  },
};
await store.put("killed", body, { mode: "overwrite", signal: new AbortController().signal });
