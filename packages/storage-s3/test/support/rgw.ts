// The real server of the live tests: any that HOLDFAST_S3_URL and its companions name; `node scripts/rgw.mjs run -- COMMAND` starts one.
import { randomUUID } from "node:crypto";
import type { S3Client } from "@aws-sdk/client-s3";
import { createLimiter, type ObjectStore } from "@holdfast/object-store";
import { s3Store, type ConnectionOptions } from "@holdfast/storage-s3";
import { afterAll, beforeAll } from "vitest";
import * as sdk from "@aws-sdk/client-s3";

const { env } = process;

/** Where the server is, or null where none is named. In CI that is a failure: a tier that skips itself shows nothing. */
export const server =
  env["HOLDFAST_S3_URL"] === undefined
    ? null
    : {
        endpoint: env["HOLDFAST_S3_URL"],
        bucket: env["HOLDFAST_S3_BUCKET"] ?? "holdfast",
        region: env["HOLDFAST_S3_REGION"] ?? "us-east-1",
        credentials: {
          accessKeyId: env["HOLDFAST_S3_ACCESS_KEY_ID"] ?? "",
          secretAccessKey: env["HOLDFAST_S3_SECRET_ACCESS_KEY"] ?? "",
        },
      };

if (server === null) {
  const how = "no S3 server: run `node scripts/rgw.mjs run -- npx vitest run --project live packages/storage-s3`";
  if (env["CI"] !== undefined && env["CI"] !== "") throw new Error(`${how}, or set HOLDFAST_S3_URL`);
  console.log(`skipped: ${how}, or set HOLDFAST_S3_URL`);
}

/** What Ceph's gateway (16) needs to be told: it compares If-Match without quotes and looks at no condition of a multipart upload. */
export const cephOptions = { ifMatch: "unquoted", conditionalComplete: false, allowHttp: true } as const;

/** A bucket with a name of its own for the tests of one file, made before them and deleted after them. */
export function bucketOfThisFile(): string {
  const name = `test-${randomUUID()}`;
  const admin = (): S3Client => new sdk.S3Client({ ...connection(), forcePathStyle: true });
  beforeAll(async () => {
    if (server !== null) await admin().send(new sdk.CreateBucketCommand({ Bucket: name }));
  });
  afterAll(async () => {
    if (server === null) return;
    await empty(openStore({ bucket: name }));
    await admin().send(new sdk.DeleteBucketCommand({ Bucket: name }));
  });
  return name;
}

function connection(): NonNullable<typeof server> {
  if (server === null) throw new Error("no server");
  return server;
}

/** A store on the server. */
export const openStore = (o: Partial<ConnectionOptions> = {}): ObjectStore =>
  s3Store({ ...connection(), ...cephOptions, ...o, client: undefined });

/** Deletes everything that a store lists. */
export async function empty(store: ObjectStore): Promise<void> {
  const { signal } = new AbortController();
  const places = createLimiter(16);
  const deletes: Promise<void>[] = [];
  for await (const { key } of store.list({ prefix: "", signal }))
    deletes.push(places(() => store.delete(key, { signal }), signal));
  await Promise.all(deletes);
}
