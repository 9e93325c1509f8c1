// Goal: the fake GCS serves what Google's own client sends. Method: @google-cloud/storage 7 and 8, with their defaults, against it.
import { gzipSync } from "node:zlib";
import type { Storage, StorageOptions } from "@google-cloud/storage";
import { describe, expect, it } from "vitest";
import { gcs } from "../support/gcs.js";

type Vendor = { readonly name: string; readonly Storage: (new (o: StorageOptions) => Storage) | null };

/** 8 asks for Node 22: where it does not load, its tests are skipped, with the reason in their title. */
async function load(name: string, module: () => Promise<unknown>): Promise<Vendor> {
  try {
    return { name, Storage: ((await module()) as { Storage: NonNullable<Vendor["Storage"]> }).Storage };
  } catch (error) {
    return { name: `${name}: not on Node ${process.version} (${String(error).split("\n")[0]})`, Storage: null };
  }
}

const vendors = await Promise.all([
  load("@google-cloud/storage 7", () => import("@google-cloud/storage")),
  load("@google-cloud/storage 8", () => import("@google-cloud/storage-8")),
]);

const bytes = Buffer.from(Array.from({ length: 600 * 1024 }, (_, n) => (n * 31 + (n >> 8)) & 255));

describe.each(vendors)("$name", ({ Storage }) => {
  const open = async (o: Parameters<typeof gcs>[0] = {}) => {
    const fake = await gcs(o);
    const bucket = new Storage!({ apiEndpoint: fake.server.url, projectId: "p" }).bucket("b");
    return { fake, bucket };
  };

  it.skipIf(Storage === null)(
    "DL-32 simple and resumable uploads, in one request and in chunks, come back with their checksums right",
    async () => {
      const { fake, bucket } = await open({ chunkMultiple: 256 * 1024 });
      const ways = { simple: { resumable: false }, resumable: {}, chunks: { chunkSize: 256 * 1024 } };
      for (const [name, o] of Object.entries(ways)) {
        for (const validation of ["crc32c", "md5"] as const) {
          const metadata = { contentType: "a/b", metadata: { id: name } };
          await bucket.file(name).save(bytes, { ...o, validation, metadata });
          const [content] = await bucket.file(name).download({ validation });
          expect(content.equals(bytes), name).toBe(true);
        }
        expect((await bucket.file(name).getMetadata())[0]).toMatchObject({
          contentType: "a/b",
          metadata: { id: name },
        });
      }
      expect(fake.sessions().map(({ state, requests }) => [state, requests])).toEqual([
        ["complete", 1],
        ["complete", 1],
        ["complete", 3],
        ["complete", 3],
      ]);
      expect((await bucket.getFiles({ maxResults: 2 }))[0].map(({ name }) => name)).toHaveLength(2);
      expect((await bucket.getFiles())[0].map(({ name }) => name)).toEqual(["chunks", "resumable", "simple"]);
    },
  );

  it.skipIf(Storage === null)("DL-32 a chunk of which less is kept is sent again from there", async () => {
    let puts = 0;
    const { fake, bucket } = await open({ keptBytes: (_session, n) => (++puts === 1 ? 100_000 : n) });
    await bucket.file("k").save(bytes, { chunkSize: 256 * 1024 });
    expect(fake.objects.get("b/k")?.bytes.equals(bytes)).toBe(true);
  });

  it.skipIf(Storage === null)(
    "DL-32 preconditions, ranges, gzip, and what is not there are told by its own errors",
    async () => {
      const { bucket } = await open();
      const file = bucket.file("k");
      const once = { resumable: false, preconditionOpts: { ifGenerationMatch: 0 } };
      await file.save("hello", once);
      await expect(file.save("other", once)).rejects.toMatchObject({
        code: 412,
        errors: [{ reason: "conditionNotMet" }],
      });
      expect((await file.download({ start: 1, end: 3 }))[0].toString()).toBe("ell");
      await expect(file.download({ start: 9 })).rejects.toMatchObject({ code: 416 });
      await bucket.file("z").save(gzipSync("hello"), { resumable: false, metadata: { contentEncoding: "gzip" } });
      expect((await bucket.file("z").download())[0].toString()).toBe("hello");
      await file.setMetadata({ metadata: { a: "1" } });
      expect((await file.getMetadata())[0]).toMatchObject({ metageneration: "2", metadata: { a: "1" } });
      await file.delete();
      await expect(file.download()).rejects.toMatchObject({ code: 404 });
      expect(await file.exists()).toEqual([false]);
    },
  );
});
