// Goal: options that cannot work are refused when the store is made, by name, and never with a secret in the words.
import { describe, expect, it } from "vitest";
import { s3Store, type ConnectionOptions, type S3StoreOptions } from "@holdfast/storage-s3";
import * as sdk from "@aws-sdk/client-s3";

const MiB = 2 ** 20;
const at = (o: Partial<ConnectionOptions>): S3StoreOptions => ({
  bucket: "b",
  endpoint: "https://s3.example.com",
  ...o,
  client: undefined,
});

describe("options", () => {
  it.each<[string, Partial<ConnectionOptions>]>([
    ["bucket", { bucket: "" }],
    ["bucket", { bucket: "a/b" }],
    ["endpoint", { endpoint: "s3.example.com" }],
    ["endpoint", { endpoint: "ftp://s3.example.com" }],
    ["endpoint", { endpoint: "https://key:hidden@s3.example.com" }],
    ["endpoint", { endpoint: "https://s3.example.com/?token=hidden" }],
    ["allowHttp", { endpoint: "http://s3.example.com" }],
    ["ca", { endpoint: "http://s3.example.com", allowHttp: true, ca: "PEM" }],
    ["checksum", { checksum: "sha1" as "md5" }],
    ["multipart.thresholdBytes", { multipart: { thresholdBytes: 64 * MiB } }],
    ["multipart.partBytes", { multipart: { partBytes: 4 * MiB } }],
    ["multipart.concurrency", { multipart: { concurrency: 0 } }],
    ["kmsKeyId", { kmsKeyId: "key" }],
    ["kmsKeyId", { kmsKeyId: "key", serverSideEncryption: "AES256" }],
    ["expectedBucketOwner", { expectedBucketOwner: "me" }],
    ["attempts", { attempts: 0 }],
    ["storeId", { storeId: "" }],
  ])("%s is refused by name (%j)", (name, o) => {
    expect(() => s3Store(at(o))).toThrow(
      expect.objectContaining({ code: "CONFIG_INVALID", message: expect.stringContaining(name) as string }) as Error,
    );
    expect(() => s3Store(at(o))).not.toThrow(/hidden/);
  });

  it("a client needs a storeId, since its endpoint is not known", () => {
    const client = new sdk.S3Client({ region: "x" });
    const without = { bucket: "b", client } as unknown as S3StoreOptions;
    expect(() => s3Store(without)).toThrow("storeId");
    expect(s3Store({ bucket: "b", client, storeId: "mine" }).storeId).toBe("mine");
  });

  it("the default storeId is the place, and a pack of 64 MiB is below the threshold of parts", () => {
    expect(s3Store({ bucket: "b", region: "eu-west-1" }).storeId).toBe("s3:b");
    expect(s3Store(at({})).storeId).toBe("s3:s3.example.com/b");
    expect(s3Store(at({ endpoint: "https://s3.example.com:9000", keyPrefix: "t/" })).storeId).toBe(
      "s3:s3.example.com:9000/b/t/",
    );
    expect(() => s3Store(at({ multipart: { thresholdBytes: 64 * MiB + 1 } }))).not.toThrow();
  });

  it("what the store cannot do is declared", () => {
    expect(s3Store(at({ create: false, ifMatch: false })).capabilities).toMatchObject({
      create: false,
      ifMatch: false,
    });
    expect(s3Store(at({})).capabilities.maxObjectBytes).toBe(5 * 2 ** 30);
    expect(s3Store(at({ conditionalComplete: true })).capabilities.maxObjectBytes).toBe(5 * 2 ** 40);
    expect(s3Store({ bucket: "b", region: "x" }).capabilities.maxObjectBytes).toBe(5 * 2 ** 40);
  });
});
