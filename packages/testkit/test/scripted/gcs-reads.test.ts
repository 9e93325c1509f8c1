// Goal: the fake GCS gives, lists, conditions and removes objects as the reference of the JSON API says. Method: a plain node:http client.
import { gunzipSync, gzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import { call } from "../support/client.js";
import { gcs, generationOf, parsed } from "../support/gcs.js";

describe("downloads", () => {
  it("DL-32 whole, with generation, checksums and stored length in the headers", async () => {
    const fake = await gcs();
    const generation = generationOf(await fake.put("k", "hello"));
    expect(await call(fake.at("k", "?alt=media"))).toMatchObject({
      status: 200,
      body: "hello",
      headers: {
        "content-length": "5",
        "x-goog-generation": generation,
        "x-goog-metageneration": "1",
        "x-goog-hash": "crc32c=mnG7TA==,md5=XUFAKrxLKna5cZ2REBfFkg==",
        "x-goog-stored-content-encoding": "identity",
        "x-goog-stored-content-length": "5",
      },
    });
    const download = `${fake.server.url}/download/storage/v1/b/b/o/k`;
    expect((await call(download)).body).toBe("hello");
  });

  it.each([
    ["bytes=1-3", 206, "ell", "bytes 1-3/5"],
    ["bytes=3-", 206, "lo", "bytes 3-4/5"],
    ["bytes=3-99", 206, "lo", "bytes 3-4/5"],
    ["bytes=-2", 206, "lo", "bytes 3-4/5"],
    ["bytes=5-", 416, expect.any(String), "bytes */5"],
    ["bytes=0-1,3-4", 200, "hello", undefined],
  ])("DL-32 Range %s: %i", async (range, status, body, contentRange) => {
    const fake = await gcs();
    await fake.put("k", "hello");
    const got = await call(fake.at("k", "?alt=media"), { headers: { range } });
    expect([got.status, got.body, got.headers?.["content-range"]]).toEqual([status, body, contentRange]);
  });

  it("DL-32 what is not there is told in text to a download and in JSON to the rest; an old generation is not there", async () => {
    const fake = await gcs();
    const old = generationOf(await fake.put("k", "old"));
    await fake.put("k", "new");
    for (const query of ["?alt=media", `?alt=media&generation=${old}`]) {
      const got = await call(fake.at(query === "?alt=media" ? "other" : "k", query));
      expect([got.status, got.body.startsWith("No such object")]).toEqual([404, true]);
    }
    expect(parsed(await call(fake.at("other")))).toMatchObject({
      error: { code: 404, errors: [{ reason: "notFound" }] },
    });
    expect((await call(fake.at("other"), { method: "DELETE" })).status).toBe(404);
  });

  it("DL-32 an object stored gzip-encoded is decoded without a length, and ranges of it are ignored", async () => {
    const fake = await gcs();
    const zipped = gzipSync("hello, hello, hello");
    await fake.put("k", zipped, "&contentEncoding=gzip");
    for (const range of [undefined, "bytes=0-4"]) {
      const got = await call(fake.at("k", "?alt=media"), { headers: range === undefined ? {} : { range } });
      expect(got).toMatchObject({ status: 200, body: "hello, hello, hello" });
      expect(got.headers).toMatchObject({
        "transfer-encoding": "chunked",
        "x-goog-stored-content-encoding": "gzip",
        "x-goog-stored-content-length": String(zipped.length),
      });
      expect(got.headers).not.toHaveProperty("content-encoding");
    }
    expect((await call(fake.at("k", "?alt=media"), { headers: { "accept-encoding": "gzip;q=0" } })).body).toContain(
      "hello",
    );
    const asStored = await call(fake.at("k", "?alt=media"), { headers: { "accept-encoding": "deflate, gzip" } });
    expect(asStored.headers).toMatchObject({ "content-encoding": "gzip", "content-length": String(zipped.length) });
    expect(gunzipSync(Buffer.from(asStored.body, "latin1")).toString()).toBe("hello, hello, hello");
    const part = await call(fake.at("k", "?alt=media"), { headers: { "accept-encoding": "gzip", range: "bytes=0-1" } });
    expect([part.status, part.headers?.["content-range"]]).toEqual([206, `bytes 0-1/${zipped.length}`]);
  });

  it("DL-32 one that says no-transform, or that only claims to be gzip, comes as it is stored", async () => {
    const fake = await gcs();
    const zipped = gzipSync("hello");
    const upload = await fake.begin("k", { metadata: { contentEncoding: "gzip", cacheControl: "no-transform" } });
    await upload.send(`bytes 0-${zipped.length - 1}/${zipped.length}`, zipped);
    await fake.put("plain", "hello", "&contentEncoding=gzip");
    for (const [key, length] of [
      ["k", zipped.length],
      ["plain", 5],
    ] as const) {
      const got = await call(fake.at(key, "?alt=media"));
      expect(got.headers).toMatchObject({ "content-encoding": "gzip", "content-length": String(length) });
    }
  });
});

describe("preconditions", () => {
  it.each([
    // [query with G for the generation, of a read, of a write]
    ["ifGenerationMatch=G", 200, 200],
    ["ifGenerationMatch=0", 412, 412],
    ["ifGenerationMatch=99999999999999999999", 412, 412],
    ["ifGenerationNotMatch=G", 304, 412],
    ["ifGenerationNotMatch=0", 200, 200],
    ["ifMetagenerationMatch=1", 200, 200],
    ["ifMetagenerationMatch=2", 412, 412],
    ["ifMetagenerationNotMatch=1", 304, 412],
    ["ifGenerationMatch=G&ifMetagenerationMatch=2", 412, 412],
    ["ifGenerationMatch=x", 400, 400],
  ])("DL-32 %s of an object that is there: %i to a read, %i to a write", async (query, read, write) => {
    const fake = await gcs();
    const own = query.replace("=G", `=${generationOf(await fake.put("k", "hello"))}`);
    for (const url of [fake.at("k", `?${own}`), fake.at("k", `?alt=media&${own}`)]) {
      const got = await call(url);
      expect(got.status).toBe(read);
      if (read === 304) expect(got.body).toBe("");
      if (read === 412) {
        const [error] = (parsed(got)["error"] as { errors: unknown[] }).errors;
        expect(error).toMatchObject({ reason: "conditionNotMet", locationType: "header", location: "If-Match" });
      }
    }
    expect((await fake.put("k", "new", `&${own}`)).status).toBe(write);
    expect(fake.objects.get("b/k")?.bytes.toString()).toBe(write === 200 ? "new" : "hello");
    const now = query.replace("=G", `=${fake.objects.get("b/k")?.generation}`);
    expect((await call(fake.at("k", `?${now}`), { method: "DELETE" })).status).toBe(write === 200 ? 204 : write);
    expect(fake.objects.has("b/k")).toBe(write !== 200);
  });

  it.each([
    ["ifGenerationMatch=0", 200],
    ["ifGenerationMatch=1", 412],
    ["ifGenerationNotMatch=0", 412],
    ["ifMetagenerationMatch=1", 412],
  ])("DL-32 %s where nothing is: %i to an upload", async (query, status) => {
    const fake = await gcs();
    expect((await fake.put("k", "x", `&${query}`)).status).toBe(status);
  });

  it("DL-32 an update of the metadata keeps the generation, and a new object begins with the first metageneration", async () => {
    const fake = await gcs();
    const generation = generationOf(await fake.put("k", "x"));
    const patch = (change: object, query = ""): ReturnType<typeof call> =>
      call(fake.at("k", query), { method: "PATCH", body: JSON.stringify(change) });
    await patch({ metadata: { a: "1", b: "2" } });
    const updated = parsed(await patch({ metadata: { a: null }, contentType: "a/b" }, "?ifMetagenerationMatch=2"));
    expect(updated).toMatchObject({ generation, metageneration: "3", metadata: { b: "2" }, contentType: "a/b" });
    expect((await patch({}, "?ifMetagenerationMatch=2")).status).toBe(412);
    expect(parsed(await fake.put("k", "y"))).toMatchObject({ metageneration: "1", metadata: {} });
  });
});

describe("lists", () => {
  const names = async (fake: Awaited<ReturnType<typeof gcs>>, query: string): Promise<string[]> => {
    const page = parsed(await call(`${fake.server.url}/storage/v1/b/b/o?${query}`)) as { items?: { name: string }[] };
    return (page.items ?? []).map(({ name }) => name);
  };

  it("DL-32 in the order of bytes, by prefix, from an offset on, before one, and in pages", async () => {
    const fake = await gcs();
    const keys = ["a", "a/b", "a+b", "a b", "b", "é", "\u{ffff}", "😀"];
    for (const key of keys) await fake.put(key, "x");
    const sorted = [...keys].sort((x, y) => Buffer.compare(Buffer.from(x), Buffer.from(y)));
    expect(await names(fake, "")).toEqual(sorted);
    expect(await names(fake, "prefix=a")).toEqual(["a", "a b", "a+b", "a/b"]);
    expect(await names(fake, "startOffset=a%2Bb&endOffset=b")).toEqual(["a+b", "a/b"]);
    const seen: string[] = [];
    let token: string | undefined;
    do {
      const url = `${fake.server.url}/storage/v1/b/b/o?maxResults=3${token === undefined ? "" : `&pageToken=${token}`}`;
      const page = parsed(await call(url)) as { items: { name: string }[]; nextPageToken?: string };
      expect(page.items.length).toBeLessThanOrEqual(3);
      seen.push(...page.items.map(({ name }) => name));
      token = page.nextPageToken;
    } while (token !== undefined);
    expect(seen).toEqual(sorted);
  });

  it("DL-32 without objects there are no items, and `fields` leaves in what it names", async () => {
    const fake = await gcs();
    expect(parsed(await call(`${fake.server.url}/storage/v1/b/b/o`))).toEqual({ kind: "storage#objects" });
    const made = await fake.begin("k", { metadata: { metadata: { a: "1", b: "2" } } });
    await made.send("bytes 0-0/1", "x");
    await fake.put("l", "x");
    const listed = (fields: string): ReturnType<typeof call> =>
      call(`${fake.server.url}/storage/v1/b/b/o?maxResults=1&fields=${encodeURIComponent(fields)}`);
    expect(parsed(await listed("items(name,metadata/a),nextPageToken"))).toEqual({
      items: [{ name: "k", metadata: { a: "1" } }],
      nextPageToken: expect.any(String) as string,
    });
    expect(parsed(await listed("items/name"))).toEqual({ items: [{ name: "k" }] });
    expect(Object.keys(parsed(await listed("*")))).toContain("kind");
    expect(parsed(await call(fake.at("k", "?fields=size,generation")))).toEqual({ size: "1", generation: "1" });
    expect(Object.keys(parsed(await fake.put("m", "x", "&fields=name")))).toEqual(["name"]);
  });
});
