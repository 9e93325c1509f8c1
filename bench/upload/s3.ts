// The server that HOLDFAST_S3_URL names; `npm run bench` starts one where none is named. The checksum is CRC-32 in a header: Ceph's gateway takes
// none behind the body.
import { crc32 } from "node:zlib";
import { PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { s3Store } from "@holdfast/storage-s3";
import { reading, type OpenTarget, type Upload } from "./target.js";

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
  const { env } = process;
  const endpoint = env["HOLDFAST_S3_URL"];
  if (endpoint === undefined) throw new Error("HOLDFAST_S3_URL is not set; npm run bench -- upload sets it");
  const [bucket, region] = [env["HOLDFAST_S3_BUCKET"] ?? "holdfast", env["HOLDFAST_S3_REGION"] ?? "us-east-1"];
  const credentials = {
    accessKeyId: env["HOLDFAST_S3_ACCESS_KEY_ID"] ?? "",
    secretAccessKey: env["HOLDFAST_S3_SECRET_ACCESS_KEY"] ?? "",
  };
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
    stop: () => client.destroy(),
  };
};
