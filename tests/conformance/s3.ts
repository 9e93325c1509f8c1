// S3: on the server that HOLDFAST_S3_URL and its companions name; `npm run conformance -- s3` starts one (Ceph's gateway) where none is named.
import { randomUUID } from "node:crypto";
import { CreateBucketCommand, DeleteBucketCommand, S3Client } from "@aws-sdk/client-s3";
import { s3Store } from "@holdfast/storage-s3";
import type { Backend } from "./backends.js";

/** One bucket of a name of its own, emptied after each case, two stores on it. */
export async function s3(): Promise<Backend> {
  process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] ??= "true";
  const { env } = process;
  const endpoint = env["HOLDFAST_S3_URL"];
  if (endpoint === undefined) throw new Error("HOLDFAST_S3_URL is not set; npm run conformance -- s3 sets it");
  const region = env["HOLDFAST_S3_REGION"] ?? "us-east-1";
  const credentials = {
    accessKeyId: env["HOLDFAST_S3_ACCESS_KEY_ID"] ?? "",
    secretAccessKey: env["HOLDFAST_S3_SECRET_ACCESS_KEY"] ?? "",
  };
  const bucket = `holdfast-conformance-${randomUUID().slice(0, 8)}`;
  const admin = new S3Client({ endpoint, region, credentials, forcePathStyle: true });
  // What Ceph 16 has to be told; another server may need another word for ifMatch.
  const ifMatch = env["HOLDFAST_S3_IF_MATCH"] === "quoted" ? "quoted" : "unquoted";
  const store = s3Store({ endpoint, region, credentials, bucket, allowHttp: true, ifMatch });
  const other = s3Store({ endpoint, region, credentials, bucket, allowHttp: true, ifMatch });
  await admin.send(new CreateBucketCommand({ Bucket: bucket }));
  const dispose = async (): Promise<void> => {
    const signal = AbortSignal.timeout(60_000);
    for await (const { key } of store.list({ prefix: "", signal })) await store.delete(key, { signal });
  };
  return {
    open: () => Promise.resolve({ store, other, dispose }),
    async end() {
      await admin.send(new DeleteBucketCommand({ Bucket: bucket }));
      admin.destroy();
    },
  };
}
