// Goal: requests are as the options say, a given client stays as it was, and no error ever shows a secret.
import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { s3Store } from "@holdfast/storage-s3";
import * as sdk from "@aws-sdk/client-s3";
import { ops, refuse, scriptedS3, storeOn } from "../support/scripted-s3.js";

const never = new AbortController().signal;
const bytes = new TextEncoder().encode("bytes");
const credentials = { accessKeyId: "key-id", secretAccessKey: "hidden-key", sessionToken: "hidden-session" };
const create = { mode: "create", signal: never } as const;

describe("requests", () => {
  it("carry encryption, key, storage class, owner, session token and content type", async () => {
    const server = await scriptedS3();
    const store = storeOn(server, {
      credentials,
      serverSideEncryption: "aws:kms",
      kmsKeyId: "the-key",
      storageClass: "STANDARD_IA",
      expectedBucketOwner: "123456789012",
    });
    await store.put("k", bytes, { ...create, contentType: "text/plain" });
    await store.head("k", { signal: never });
    const [put, head] = server.seen;
    expect(put?.headers).toMatchObject({
      "x-amz-server-side-encryption": "aws:kms",
      "x-amz-server-side-encryption-aws-kms-key-id": "the-key",
      "x-amz-storage-class": "STANDARD_IA",
      "x-amz-expected-bucket-owner": "123456789012",
      "x-amz-security-token": "hidden-session",
      "content-type": "text/plain",
      "if-none-match": "*",
    });
    expect(head?.headers).toMatchObject({ "x-amz-expected-bucket-owner": "123456789012" });
  });

  it("path style has the bucket in the path; virtual style has it in the host", async () => {
    const server = await scriptedS3();
    await storeOn(server).head("a b", { signal: never });
    expect(server.seen[0]?.path).toBe("/bucket/a%20b");
    const byName = server.url.replace("127.0.0.1", "localhost");
    const failed: unknown = await storeOn({ url: byName }, { style: "virtual", attempts: 1 })
      .head("k", { signal: never })
      .catch((error: unknown) => error);
    // Where names below localhost can be looked up the request arrives; elsewhere the error names what was looked for.
    expect(server.seen[1]?.headers.host ?? inspect(failed)).toContain("bucket.localhost");
  });

  it("a client that is given is used as it is, and not changed", async () => {
    const server = await scriptedS3((seen, response, honest) => (seen.nth === 1 ? refuse(response, 500) : honest()));
    const client = new sdk.S3Client({
      region: "eu-west-1",
      endpoint: server.url,
      forcePathStyle: true,
      credentials,
      maxAttempts: 3,
    });
    const before = client.middlewareStack.identify();
    const store = s3Store({
      client,
      bucket: "bucket",
      storeId: "s",
      allowHttp: true,
      attempts: 1,
      checksum: "md5",
      random: () => 0,
    });
    const body = {
      size: 300_000,
      async *open() {
        yield new Uint8Array(300_000).fill(7);
      },
    };
    expect((await store.put("k", body, create)).outcome).toBe("created");
    // The client's own attempt is the second one, with the body anew, and without the checksum of an empty body that it would add.
    expect(ops(server)).toBe("put put");
    expect(server.objects.get("k")?.bytes.equals(Buffer.alloc(300_000, 7))).toBe(true);
    expect(Object.keys(server.seen[1]?.headers ?? {}).filter((name) => name.startsWith("x-amz-checksum"))).toEqual([]);
    expect(client.middlewareStack.identify()).toEqual(before);
    client.destroy();
  });

  it("what a client's own attempt may have stored is not forgotten by its last one", async () => {
    const server = await scriptedS3((seen, response) =>
      seen.nth === 1 ? refuse(response, 500) : refuse(response, 403, "AccessDenied"),
    );
    const client = new sdk.S3Client({
      region: "eu-west-1",
      endpoint: server.url,
      forcePathStyle: true,
      credentials,
      maxAttempts: 3,
    });
    const store = s3Store({ client, bucket: "bucket", storeId: "s", allowHttp: true });
    expect((await store.put("k", bytes, { mode: "overwrite", signal: never })).outcome).toBe("unknown");
    client.destroy();
  });

  it("a client that speaks http is refused unless it is allowed", async () => {
    const server = await scriptedS3();
    const client = new sdk.S3Client({ region: "eu-west-1", endpoint: server.url, forcePathStyle: true, credentials });
    const store = s3Store({ client, bucket: "bucket", storeId: "s" });
    await expect(store.head("k", { signal: never })).rejects.toMatchObject({
      code: "CONFIG_INVALID",
      message: expect.stringContaining("allowHttp") as string,
    });
    expect(await store.put("k", bytes, create)).toMatchObject({ outcome: "failed" });
    expect(server.seen).toEqual([]);
    client.destroy();
  });

  it("SP-14 a wrong signature (403) is not sent again, and no error shows a secret, whatever the server repeats", async () => {
    const server = await scriptedS3((seen, response) => {
      const all = JSON.stringify(seen.headers).replaceAll("<", "&lt;");
      const body = `<Error><Code>SignatureDoesNotMatch</Code><Message>hidden-key ${all}</Message><StringToSign>${all}</StringToSign><CanonicalRequest>${all}</CanonicalRequest></Error>`;
      response.writeHead(403, { "content-type": "application/xml", "x-amz-request-id": "hidden session" }).end(body);
    });
    const store = storeOn(server, { credentials });
    const result = await store.put("k", bytes, create);
    const read = await store.get("k", { signal: never }).catch((error: unknown) => error);
    const shown = inspect([result, read], { depth: 20, showHidden: true }) + JSON.stringify([result, read]);
    expect(shown).toContain("SignatureDoesNotMatch");
    expect(shown).not.toMatch(/hidden|Signature=|AWS4-HMAC/);
    expect(ops(server)).toBe("put get");
  });

  it("credentials that cannot be had are ACCESS_DENIED, without what their provider said", async () => {
    const server = await scriptedS3();
    const broken = () => Promise.reject(Object.assign(new Error("hidden"), { name: "CredentialsProviderError" }));
    const error: unknown = await storeOn(server, { credentials: broken })
      .head("k", { signal: never })
      .catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ code: "ACCESS_DENIED" });
    expect(inspect(error, { depth: 9 })).not.toContain("hidden");
  });
});
