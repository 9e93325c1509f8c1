// The server that HOLDFAST_S3_URL names, or one of our own, from Debian's packages. The checksum is CRC-32 in a header: Ceph's gateway takes none
// behind the body.
import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { crc32 } from "node:zlib";
import { PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { s3Store } from "@holdfast/storage-s3";
import { reading, type OpenTarget, type Upload } from "./target.js";

interface Server {
  readonly endpoint: string;
  readonly bucket: string;
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
    const bucket = env["HOLDFAST_S3_BUCKET"] ?? "holdfast";
    const region = env["HOLDFAST_S3_REGION"] ?? "us-east-1";
    return { endpoint: url, bucket, region, credentials: { accessKeyId, secretAccessKey }, stop: () => undefined };
  }
  const script = fileURLToPath(new URL("../../scripts/rgw.mjs", import.meta.url));
  const rgw = (...args: string[]) => execFileSync(process.execPath, [script, ...args], { encoding: "utf8" });
  const { endpoint, bucket, region, dir, ...credentials } = JSON.parse(rgw("start")) as Server["credentials"] &
    Record<"endpoint" | "bucket" | "region" | "dir", string>;
  return { endpoint, bucket, region, credentials, stop: () => void rgw("stop", dir) };
}

/** What a user writes who wants a checksum that this server can take. */
function bareUpload(client: S3Client, Bucket: string, keyPrefix: string, ContentLength: number): Upload {
  return async (key, path) => {
    let sum = 0;
    for await (const piece of reading(path) as AsyncIterable<Buffer>) sum = crc32(piece, sum);
    const bytes = Buffer.alloc(4);
    bytes.writeUInt32BE(sum);
    const ChecksumCRC32 = bytes.toString("base64");
    const Key = keyPrefix + key;
    await client.send(new PutObjectCommand({ Bucket, Key, Body: reading(path), ContentLength, ChecksumCRC32 }));
  };
}

export const openS3: OpenTarget = (keyPrefix, packBytes) => {
  process.env["AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED"] ??= "true"; // it would stand in the middle of the table
  const { endpoint, region, bucket, credentials, stop } = openServer();
  const client = new S3Client({
    endpoint,
    region,
    credentials,
    forcePathStyle: true,
    requestChecksumCalculation: "WHEN_REQUIRED",
  });
  return {
    endpoint,
    store: s3Store({ endpoint, region, bucket, credentials, keyPrefix, allowHttp: true }),
    bare: bareUpload(client, bucket, keyPrefix, packBytes),
    stop() {
      client.destroy();
      stop();
    },
  };
};
