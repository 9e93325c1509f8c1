// S3: on the server that HOLDFAST_S3_URL and its companions name, or on one of our own (Ceph's gateway, started by scripts/rgw.mjs).
import { execFileSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { fileURLToPath } from "node:url";
import { CreateBucketCommand, DeleteBucketCommand, S3Client } from "@aws-sdk/client-s3";
import { s3Store } from "@holdfast/storage-s3";
import type { Backend } from "./backends.js";

interface Server {
  readonly endpoint: string;
  readonly region: string;
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string };
  stop(): void;
}

function openServer(): Server {
  const { env } = process;
  const url = env["HOLDFAST_S3_URL"];
  if (url !== undefined) {
    const accessKeyId = env["HOLDFAST_S3_ACCESS_KEY_ID"] ?? "";
    const secretAccessKey = env["HOLDFAST_S3_SECRET_ACCESS_KEY"] ?? "";
    const region = env["HOLDFAST_S3_REGION"] ?? "us-east-1";
    return { endpoint: url, region, credentials: { accessKeyId, secretAccessKey }, stop: () => undefined };
  }
  const script = fileURLToPath(new URL("../../scripts/rgw.mjs", import.meta.url));
  const rgw = (...args: string[]) => execFileSync(process.execPath, [script, ...args], { encoding: "utf8" });
  const { endpoint, region, dir, accessKeyId, secretAccessKey } = JSON.parse(rgw("start")) as Record<
    "endpoint" | "region" | "dir" | "accessKeyId" | "secretAccessKey",
    string
  >;
  return { endpoint, region, credentials: { accessKeyId, secretAccessKey }, stop: () => void rgw("stop", dir) };
}

/** One bucket of a name of its own, emptied after each case, two stores on it. */
export async function s3(): Promise<Backend> {
  process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] ??= "true";
  const server = openServer();
  const { endpoint, region, credentials } = server;
  const bucket = `holdfast-conformance-${randomUUID().slice(0, 8)}`;
  const admin = new S3Client({ endpoint, region, credentials, forcePathStyle: true });
  // What Ceph 16 has to be told; another server may need another word for ifMatch.
  const ifMatch = process.env["HOLDFAST_S3_IF_MATCH"] === "quoted" ? "quoted" : "unquoted";
  const store = s3Store({ endpoint, region, credentials, bucket, allowHttp: true, ifMatch });
  const other = s3Store({ endpoint, region, credentials, bucket, allowHttp: true, ifMatch });
  try {
    await admin.send(new CreateBucketCommand({ Bucket: bucket }));
  } catch (error) {
    server.stop();
    throw error;
  }
  const dispose = async (): Promise<void> => {
    const signal = AbortSignal.timeout(60_000);
    for await (const { key } of store.list({ prefix: "", signal })) await store.delete(key, { signal });
  };
  return {
    open: () => Promise.resolve({ store, other, dispose }),
    async end() {
      await admin.send(new DeleteBucketCommand({ Bucket: bucket }));
      admin.destroy();
      server.stop();
    },
  };
}
