// Every client of the package, writing bodies of any length.
import { Readable } from "node:stream";
import { PutObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { ClickHouseLogLevel, createClient, type ClickHouseClient } from "@clickhouse/client";
import { Storage } from "@google-cloud/storage";
import { bind as bindAws } from "@holdfast/deadline-http/aws";
import { bind as bindClickHouse } from "@holdfast/deadline-http/clickhouse";
import { bindFetch } from "@holdfast/deadline-http/fetch";
import { bind as bindGcs } from "@holdfast/deadline-http/gcs";

export interface Writers extends AsyncDisposable {
  /** Each writes so many bytes and a few more, one request a call. */
  readonly calls: Readonly<Record<string, (bytes: number) => Promise<unknown>>>;
}

function* rows(bytes: number): Generator<string> {
  for (let given = 0; given < bytes; given += 1000) yield `{"a":"${"x".repeat(1000)}"}\n`;
}

export function writersTo(url: string): Writers {
  // One place in each pool: a connection that stays behind is noticed by the next call.
  const [statements, inserts] = [1, 2].map(() =>
    bindClickHouse(
      createClient({ url, log: { level: ClickHouseLogLevel.OFF }, request_timeout: 600_000, max_open_connections: 1 }),
    ),
  ) as [ClickHouseClient, ClickHouseClient];
  const s3 = bindAws(
    new S3Client({
      region: "eu-west-1",
      endpoint: url,
      forcePathStyle: true,
      credentials: { accessKeyId: "key-id", secretAccessKey: "hidden" },
      // Sums of long bodies take longer than the test.
      requestChecksumCalculation: "WHEN_REQUIRED",
    }),
  );
  const file = bindGcs(new Storage({ apiEndpoint: url, projectId: "p" }))
    .bucket("b")
    .file("f");
  const boundFetch = bindFetch();
  const calls: Writers["calls"] = {
    statement: (bytes) => statements.command({ query: `INSERT INTO t SELECT 1 /* ${"x".repeat(bytes)} */` }),
    rows: (bytes) =>
      inserts.exec({
        query: "INSERT INTO t FORMAT JSONEachRow",
        values: Readable.from(rows(bytes), { objectMode: false }),
      }),
    object: (bytes) => s3.send(new PutObjectCommand({ Bucket: "b", Key: "k", Body: Buffer.alloc(bytes, "x") })),
    file: (bytes) => file.save(Buffer.alloc(bytes, "x"), { resumable: false, validation: false }),
    fetch: (bytes) => boundFetch(url, { method: "POST", body: Buffer.alloc(bytes, "x") }),
  };
  return {
    calls,
    [Symbol.asyncDispose]: async () => {
      s3.destroy();
      await Promise.all([statements.close(), inserts.close()]);
    },
  };
}
