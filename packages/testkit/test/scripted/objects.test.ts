// Goal: the small S3 and GCS servers give, keep and list objects, and their faults are answered in their own shapes.
// Method: a plain node:http client; the vendors' clients meet them where the adapters are tested.
import { describe, expect, it } from "vitest";
import { cut, gcsError, gcsObjects, s3Error, s3Objects, times } from "@holdfast/testkit";
import { call } from "../support/client.js";
import { server } from "../support/pair.js";

describe("S3", () => {
  it("DL-32 put, get, range, head, list in pages, delete, and both conditions", async () => {
    const s3 = s3Objects();
    const { url } = await server({ otherwise: s3.answer });
    const put = (key: string, body: string, headers = {}): ReturnType<typeof call> =>
      call(`${url}/b/${key}`, { method: "PUT", body, headers });
    const first = await put("a%20b", "hello", { "x-amz-meta-id": "7" });
    expect(first).toMatchObject({ status: 200, headers: { etag: '"5d41402abc4b2a76b9719d911017c592"' } });
    expect((await put("a%20b", "x", { "if-none-match": "*" })).status).toBe(412);
    expect((await put("a%20b", "x", { "if-match": '"wrong"' })).status).toBe(412);
    const streamed = { "content-encoding": "aws-chunked" };
    await put("c", "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nx-amz-checksum-crc32:AA==\r\n\r\n", streamed);
    expect(s3.objects.get("b/c")?.bytes.toString()).toBe("abcde");
    expect(await call(`${url}/b/a%20b`)).toMatchObject({ body: "hello", headers: { "x-amz-meta-id": "7" } });
    const part = await call(`${url}/b/a%20b`, { headers: { range: "bytes=1-3" } });
    expect(part).toMatchObject({ status: 206, body: "ell", headers: { "content-range": "bytes 1-3/5" } });
    expect((await call(`${url}/b/a%20b`, { headers: { range: "bytes=-2" } })).body).toBe("lo");
    expect((await call(`${url}/b/a%20b`, { headers: { range: "bytes=5-" } })).status).toBe(416);
    const head = await call(`${url}/b/a%20b`, { method: "HEAD" });
    expect(head).toMatchObject({ status: 200, body: "", headers: { "content-length": "5" } });
    const page = (await call(`${url}/b?list-type=2&max-keys=1&prefix=`)).body;
    expect(page).toContain("<Key>a b</Key>");
    expect(page).toContain("<IsTruncated>true</IsTruncated>");
    const [, token = ""] = /<NextContinuationToken>(.*)<\/NextContinuationToken>/.exec(page) ?? [];
    expect((await call(`${url}/b?list-type=2&continuation-token=${token}`)).body).toMatch(/<Key>c<\/Key>.*(?!<Key>)/);
    expect((await call(`${url}/b/c`, { method: "DELETE" })).status).toBe(204);
    expect((await call(`${url}/b/c`)).body).toContain("<Code>NoSuchKey</Code>");
  });

  it("DL-32 a storm of SlowDown, then the object; an answer that is lost although the object was stored", async () => {
    const s3 = s3Objects();
    const made = await server({
      scripts: [
        { on: { method: "GET", path: "/b/*" }, answers: [...times(2, s3Error("SlowDown", 503)), s3.answer] },
        { on: { method: "PUT" }, answers: [cut(s3.answer, "before-headers", "rst"), s3.answer] },
      ],
      otherwise: s3.answer,
    });
    expect((await call(`${made.url}/b/k`, { method: "PUT", body: "v" })).error).toBe("ECONNRESET");
    const seen = [];
    for (let i = 0; i < 3; i++) seen.push(await call(`${made.url}/b/k`));
    expect(seen.map((s) => s.status)).toEqual([503, 503, 200]);
    expect(seen[0]!.body).toContain("<Code>SlowDown</Code>");
    expect(seen[2]!.body).toBe("v");
  });
});

describe("GCS", () => {
  it("DL-32 a generation is never given twice, to an object made anew after its deletion neither", async () => {
    const gcs = gcsObjects();
    const { url } = await server({ otherwise: gcs.answer });
    const put = async (name: string): Promise<string> => {
      const made = await call(`${url}/upload/storage/v1/b/b/o?uploadType=media&name=${name}`, { body: "x" });
      return (JSON.parse(made.body) as { generation: string }).generation;
    };
    const first = await put("k");
    await call(`${url}/storage/v1/b/b/o/k`, { method: "DELETE" });
    const again = await put("k");
    expect(Number(again)).toBeGreaterThan(Number(first));
    expect(Number(await put("other"))).toBeGreaterThan(Number(again));
  });

  it("DL-32 media, multipart and resumable uploads, download, range, metadata, list, condition, delete", async () => {
    const gcs = gcsObjects();
    const { url } = await server({ otherwise: gcs.answer });
    const upload = `${url}/upload/storage/v1/b/b/o`;
    const object = (name: string): string => `${url}/storage/v1/b/b/o/${encodeURIComponent(name)}`;
    await call(`${upload}?uploadType=media&name=a%2Fb`, { body: "hello", headers: { "content-type": "text/plain" } });
    const metadata = JSON.parse((await call(object("a/b"))).body) as Record<string, unknown>;
    expect(metadata).toMatchObject({ name: "a/b", size: "5", crc32c: "mnG7TA==", contentType: "text/plain" });
    const parts = [
      '--X\r\ncontent-type: application/json\r\n\r\n{"name":"m","metadata":{"id":"7"}}\r\n',
      "--X\r\ncontent-type: text/plain\r\n\r\nby\r\n\r\nparts\r\n--X--",
    ];
    const type = { "content-type": 'multipart/related; boundary="X"' };
    await call(`${upload}?uploadType=multipart`, { body: parts.join(""), headers: type });
    expect((await call(`${object("m")}?alt=media`)).body).toBe("by\r\n\r\nparts");
    const session = await call(`${upload}?uploadType=resumable&name=r`, { body: "{}" });
    const at = String(session.headers!["location"]);
    const send = (body: string, range: string): ReturnType<typeof call> =>
      call(at, { method: "PUT", body, headers: { "content-range": range } });
    expect(await send("abc", "bytes 0-2/*")).toMatchObject({ status: 308, headers: { range: "bytes=0-2" } });
    expect(await send("", "bytes */*")).toMatchObject({ status: 308, headers: { range: "bytes=0-2" } });
    expect((await send("de", "bytes 3-4/5")).status).toBe(200);
    const part = await call(`${object("r")}?alt=media`, { headers: { range: "bytes=1-2" } });
    expect(part).toMatchObject({ status: 206, body: "bc" });
    const listed = JSON.parse((await call(`${url}/storage/v1/b/b/o?maxResults=2`)).body) as {
      items: { name: string }[];
      nextPageToken: string;
    };
    expect(listed.items.map((i) => i.name)).toEqual(["a/b", "m"]);
    const next = await call(`${url}/storage/v1/b/b/o?pageToken=${listed.nextPageToken}`);
    expect(JSON.parse(next.body)).toMatchObject({ items: [{ name: "r" }] });
    const guarded = await call(`${upload}?uploadType=media&name=r&ifGenerationMatch=0`, { body: "x" });
    expect(guarded.status).toBe(412);
    expect((await call(object("r"), { method: "DELETE" })).status).toBe(204);
    expect(JSON.parse((await call(object("r"))).body)).toMatchObject({ error: { code: 404 } });
  });

  it("DL-32 errors in the shape of the JSON API", async () => {
    const { url } = await server({ otherwise: gcsError(429, "rateLimitExceeded") });
    const seen = await call(url);
    expect(seen.status).toBe(429);
    expect(JSON.parse(seen.body)).toMatchObject({ error: { code: 429, errors: [{ reason: "rateLimitExceeded" }] } });
  });
});
