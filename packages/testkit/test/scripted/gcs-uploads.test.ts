// Goal: the fake GCS takes uploads as the reference of the JSON API says, and refuses what must not be stored. Method: a plain node:http client.
import { describe, expect, it } from "vitest";
import { cut, gcsError, times } from "@holdfast/testkit";
import { call } from "../support/client.js";
import { gcs, generationOf, parsed } from "../support/gcs.js";

describe("resumable uploads", () => {
  it("DL-32 chunks are kept, a status query says how far it is, and the last chunk makes the object", async () => {
    const fake = await gcs();
    const upload = await fake.begin("k", { metadata: { contentType: "text/plain", metadata: { id: "7" } } });
    expect(upload.began).toMatchObject({ status: 200, body: "" });
    const empty = await upload.send("bytes */*");
    expect([empty.status, empty.headers?.["range"]]).toEqual([308, undefined]);
    expect(await upload.send("bytes 0-2/*", "abc")).toMatchObject({ status: 308, headers: { range: "bytes=0-2" } });
    expect(await upload.send("bytes */5")).toMatchObject({ status: 308, headers: { range: "bytes=0-2" } });
    expect(fake.sessions()).toEqual([{ id: "session-1", name: "b/k", receivedBytes: 3, state: "open", requests: 3 }]);
    expect((await call(fake.at("k"))).status).toBe(404);
    const done = await upload.send("bytes 3-4/5", "de");
    expect(done.status).toBe(200);
    expect(parsed(done)).toMatchObject({ name: "k", size: "5", contentType: "text/plain", metadata: { id: "7" } });
    expect(fake.objects.get("b/k")?.bytes.toString()).toBe("abcde");
    // Whoever lost that answer asks again, and has it.
    expect(generationOf(await upload.send("bytes */5"))).toBe(generationOf(done));
    expect(fake.sessions()).toMatchObject([{ receivedBytes: 5, state: "complete" }]);
  });

  it("DL-32 all in one request, with its size, without it, and without a Content-Range; an object without bytes", async () => {
    const fake = await gcs();
    for (const range of ["bytes 0-2/3", "bytes 0-*/*", "bytes 0-*/3", null]) {
      const upload = await fake.begin("k");
      expect((await upload.send(range, "abc")).status).toBe(200);
    }
    const empty = await fake.begin("empty");
    expect(parsed(await empty.send("bytes */0"))).toMatchObject({ size: "0", crc32c: "AAAAAA==" });
  });

  it("DL-32 a chunk that is sent again changes nothing that is kept, and adds what is new of it", async () => {
    const fake = await gcs();
    const upload = await fake.begin("k");
    await upload.send("bytes 0-3/*", "abcd");
    expect(await upload.send("bytes 0-3/*", "XXXX")).toMatchObject({ status: 308, headers: { range: "bytes=0-3" } });
    expect((await upload.send("bytes 2-5/6", "cdef")).status).toBe(200);
    expect(fake.objects.get("b/k")?.bytes.toString()).toBe("abcdef");
  });

  it("DL-32 a server that keeps less than it was sent says so, and the rest completes it", async () => {
    let puts = 0;
    const fake = await gcs({ keptBytes: (session, bytes) => (session.name === "b/k" && ++puts === 1 ? 2 : bytes) });
    const upload = await fake.begin("k");
    expect(await upload.send("bytes 0-4/5", "abcde")).toMatchObject({ status: 308, headers: { range: "bytes=0-1" } });
    expect((await upload.send("bytes 2-4/5", "cde")).status).toBe(200);
    expect(fake.objects.get("b/k")?.bytes.toString()).toBe("abcde");
  });

  it("DL-32 what does not fit is refused and not kept: a gap, another length, more than the size, an unreadable range", async () => {
    const fake = await gcs({ chunkMultiple: 4 });
    const upload = await fake.begin("k", { headers: { "x-upload-content-length": "8" } });
    const gap = await upload.send("bytes 4-7/8", "efgh");
    expect(gap).toMatchObject({
      status: 503,
      headers: { "content-type": expect.stringContaining("text/plain") as string },
    });
    expect(gap.body).toContain("the upload offset is 4 byte(s), which exceeds already uploaded size of 0");
    for (const [range, body] of [
      ["bytes 0-7/8", "abcd"],
      ["bytes 0-3/2", "abcd"],
      ["bytes 0-2/*", "abc"],
      ["items 0-3/8", "abcd"],
      // Begun for 8.
      ["bytes 0-3/4", "abcd"],
    ] as const) {
      expect((await upload.send(range, body)).status, range).toBe(400);
    }
    expect(fake.objects.size).toBe(0);
    expect((await upload.send("bytes 4-7/8", "efgh")).status).toBe(200);
    expect(fake.objects.get("b/k")?.bytes.toString()).toBe("abcdefgh");
  });

  it("DL-32 DELETE ends a session with 499, and nothing of it is stored afterwards", async () => {
    const fake = await gcs();
    const upload = await fake.begin("k");
    await upload.send("bytes 0-2/*", "abc");
    expect((await upload.drop()).status).toBe(499);
    expect((await upload.send("bytes 3-4/5", "de")).status).toBe(404);
    expect((await upload.drop()).status).toBe(404);
    expect(fake.sessions()).toMatchObject([{ state: "deleted" }]);
    expect(fake.objects.size).toBe(0);
  });

  it.each([[undefined, 410] as const, [410, 410] as const, [404, 404] as const])(
    "DL-32 expired with %s, open sessions are gone (%i), and those that were completed stay",
    async (given, status) => {
      const fake = await gcs();
      const [open, complete] = [await fake.begin("open"), await fake.begin("complete")];
      await complete.send("bytes 0-0/1", "x");
      fake.expireSessions(given);
      expect((await open.send("bytes 0-0/1", "x")).status).toBe(status);
      expect((await complete.send("bytes */1")).status).toBe(200);
      expect(fake.sessions().map(({ state }) => state)).toEqual(["expired", "complete"]);
      expect((await (await fake.begin("open")).send("bytes 0-0/1", "x")).status).toBe(200);
    },
  );

  // Red without `!request.complete`: what had come of `bytes 0-*/*` was the object.
  it("DL-32 bytes of a request that did not come as a whole are kept, and never the end of an object", async () => {
    const fake = await gcs();
    const bytes = Buffer.alloc(1024 * 1024, "0123456789");
    const answers = [cut(fake.answer, "before-headers")];
    const stop = fake.server.use({ on: { method: "PUT" }, answers, afterBodyBytes: 1000 });
    const upload = await fake.begin("k");
    expect((await upload.send("bytes 0-*/*", bytes)).error).toBeDefined();
    stop();
    const [{ receivedBytes: kept, state } = { receivedBytes: 0 }] = fake.sessions();
    expect([kept >= 1000, kept < bytes.length, state, fake.objects.size]).toEqual([true, true, "open", 0]);
    const asked = await upload.send("bytes */*");
    expect(asked).toMatchObject({ status: 308, headers: { range: `bytes=0-${kept - 1}` } });
    const rest = await upload.send(`bytes ${kept}-${bytes.length - 1}/${bytes.length}`, bytes.subarray(kept));
    expect(rest.status).toBe(200);
    expect(fake.objects.get("b/k")?.bytes.equals(bytes)).toBe(true);
  });

  it("DL-32 preconditions are those of the request that began it: looked at then, and again at the end", async () => {
    const fake = await gcs();
    const [first, second] = [
      await fake.begin("k", { query: "&ifGenerationMatch=0" }),
      await fake.begin("k", { query: "&ifGenerationMatch=0" }),
    ];
    expect((await first.send("bytes 0-0/1", "1")).status).toBe(200);
    expect((await second.send("bytes 0-0/1", "2")).status).toBe(412);
    expect((await fake.begin("k", { query: "&ifGenerationMatch=0" })).began.status).toBe(412);
    expect(fake.objects.get("b/k")?.bytes.toString()).toBe("1");
  });

  it("DL-32 throttling with Retry-After and a lost answer come from scripts around it", async () => {
    const slow = gcsError(429, "rateLimitExceeded", undefined, { "Retry-After": "1" });
    const fake = await gcs({}, [{ on: { method: "PUT" }, answers: times(2, slow) }]);
    const upload = await fake.begin("k");
    expect(await upload.send("bytes 0-0/1", "x")).toMatchObject({ status: 429, headers: { "retry-after": "1" } });
    fake.server.clear();
    fake.server.use({ on: { method: "PUT" }, answers: [cut(fake.answer, "before-headers"), fake.answer] });
    expect((await upload.send("bytes 0-0/1", "x")).error).toBe("ECONNRESET");
    expect((await upload.send("bytes */1")).status).toBe(200);
    expect(fake.objects.size).toBe(1);
  });
});

describe("checksums", () => {
  const right = { crc32c: "mnG7TA==", md5: "XUFAKrxLKna5cZ2REBfFkg==" };

  it.each([
    ["crc32c", `crc32c=AAAAAA==`, "CRC32C"],
    ["md5", `crc32c=${right.crc32c},md5=AAAAAAAAAAAAAAAAAAAAAA==`, "MD5 hash"],
  ])("DL-32 a wrong %s in X-Goog-Hash: 400, and nothing is stored", async (_what, hash, named) => {
    const fake = await gcs();
    const upload = await fake.begin("k");
    for (const refused of [
      await fake.put("k", "hello", "", { "x-goog-hash": hash }),
      await upload.send("bytes 0-4/5", "hello", { "x-goog-hash": hash }),
    ]) {
      expect(refused.status).toBe(400);
      expect(parsed(refused)).toMatchObject({ error: { code: 400, errors: [{ reason: "invalid" }] } });
      expect(refused.body).toContain(`Provided ${named}`);
    }
    expect(fake.objects.size).toBe(0);
    const both = { "x-goog-hash": `crc32c=${right.crc32c},md5=${right.md5}` };
    expect((await fake.put("k", "hello", "", both)).status).toBe(200);
    expect((await upload.send("bytes */5", "", both)).status).toBe(200);
  });

  it("DL-32 in the metadata of a multipart upload, and of the request that begins a resumable one", async () => {
    const fake = await gcs();
    const multipart = (metadata: object): ReturnType<typeof call> =>
      call(`${fake.server.url}/upload/storage/v1/b/b/o?uploadType=multipart&name=m`, {
        method: "POST",
        headers: { "content-type": "multipart/related; boundary=X" },
        body: `--X\r\nContent-Type: application/json\r\n\r\n${JSON.stringify(metadata)}\r\n--X\r\nContent-Type: a/b\r\n\r\nhello\r\n--X--`,
      });
    expect((await multipart({ crc32c: "AAAAAA==" })).status).toBe(400);
    const made = await multipart({ crc32c: right.crc32c, md5Hash: right.md5 });
    expect(parsed(made)).toMatchObject({ contentType: "a/b", crc32c: right.crc32c, md5Hash: right.md5 });
    const wrong = await fake.begin("k", { metadata: { md5Hash: "AAAAAAAAAAAAAAAAAAAAAA==" } });
    expect((await wrong.send("bytes 0-4/5", "hello")).status).toBe(400);
    const fits = await fake.begin("k", { metadata: { crc32c: right.crc32c } });
    expect((await fits.send("bytes 0-4/5", "hello")).status).toBe(200);
  });
});

describe("what an object is made with", () => {
  it("DL-32 type, encoding, class, key and project are kept and come back where the service gives them", async () => {
    const fake = await gcs();
    const query = "&kmsKeyName=projects%2Fp%2Fkey&userProject=me&contentEncoding=gzip";
    expect(parsed(await fake.put("k", "x", query, { "content-type": "a/b" }))).toMatchObject({
      contentType: "a/b",
      contentEncoding: "gzip",
      storageClass: "STANDARD",
      kmsKeyName: "projects/p/key/cryptoKeyVersions/1",
    });
    expect(fake.objects.get("b/k")?.headers["user-project"]).toBe("me");
    const cold = await fake.begin("cold", {
      metadata: { storageClass: "NEARLINE", cacheControl: "no-store" },
      headers: { "x-upload-content-type": "c/d" },
    });
    const made = parsed(await cold.send("bytes 0-0/1", "x"));
    expect(made).toMatchObject({ storageClass: "NEARLINE", cacheControl: "no-store", contentType: "c/d" });
  });

  it("DL-32 names that the service does not take, buckets that are not there, and bodies that are no JSON are refused", async () => {
    const fake = await gcs({ buckets: ["b"] });
    expect((await fake.put("a".repeat(1024), "x")).status).toBe(200);
    expect((await fake.put("a".repeat(1025), "x")).status).toBe(400);
    expect((await fake.put("a\nb", "x")).status).toBe(400);
    expect((await fake.put("", "x")).status).toBe(400);
    expect((await fake.begin("..")).began.status).toBe(400);
    const other = await call(`${fake.server.url}/storage/v1/b/other/o`);
    expect(other).toMatchObject({ status: 404, body: expect.stringContaining("bucket does not exist") as string });
    expect((await call(`${fake.server.url}/storage/v1/b/b`)).status).toBe(200);
    const noJson = await call(`${fake.server.url}/upload/storage/v1/b/b/o?uploadType=resumable`, { body: "{" });
    expect(noJson.status).toBe(400);
  });
});
