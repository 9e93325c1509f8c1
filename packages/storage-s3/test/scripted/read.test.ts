// Goal: a read gives the bytes that were asked for or an error, never something else. Method: a server that answers each wrong way that has
// been seen; reads are judged by what they return.
import { setImmediate as nextTurn } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import { errorCode } from "@holdfast/object-store";
import { describe, expect, it } from "vitest";
import { ops, refuse, reset, scriptedS3, storeOn, type Script } from "../support/scripted-s3.js";

const never = new AbortController().signal;
const whole = Buffer.from("0123456789".repeat(10));
const range = { offset: 10, length: 20 };

/** Reads a range (or all) of 100 bytes from a server that answers its GETs by the script. */
async function read(script: Script, o: { range?: typeof range | null } = {}) {
  const server = await scriptedS3((seen, response, honest) =>
    seen.op === "get" ? script(seen, response, honest) : honest(),
  );
  server.objects.set("k", { bytes: whole, metadata: {} });
  const asked = o.range === null ? {} : { range: o.range ?? range };
  const got = await storeOn(server)
    .get("k", { ...asked, signal: never })
    .then(
      ({ bytes }) => Buffer.from(bytes).toString(),
      (error: unknown) => errorCode(error) ?? String(error),
    );
  return { server, got };
}

const answer =
  (status: number, headers: Record<string, string | number>, body: Buffer): Script =>
  (_seen, response) =>
    void response.writeHead(status, { etag: '"e"', ...headers }).end(body);
const part = whole.subarray(10, 30);
const good = { "content-length": 20, "content-range": "bytes 10-29/100" };
const chunkedRange = { "content-range": "bytes 10-29/100", "transfer-encoding": "chunked" };
const wholeRange = { "content-range": "bytes 0-99/100" };

describe("a range that was not asked for", () => {
  it("the honest answer is the range", async () => {
    expect((await read(answer(206, good, part))).got).toBe(part.toString());
  });

  it.each<[string, number, Record<string, string | number>, Buffer]>([
    ["a 200 with the whole object", 200, { "content-length": 100 }, whole],
    ["a 200 with the range", 200, { "content-length": 20 }, part],
    [
      "a range shifted by one",
      206,
      { "content-length": 20, "content-range": "bytes 11-30/100" },
      whole.subarray(11, 31),
    ],
    ["a range cut short", 206, { "content-length": 19, "content-range": "bytes 10-28/100" }, part.subarray(0, 19)],
    ["a range too long", 206, { "content-length": 21, "content-range": "bytes 10-30/100" }, whole.subarray(10, 31)],
    ["a length that is not the range's", 206, { ...good, "content-length": 18 }, part.subarray(0, 18)],
    ["no content-range", 206, { "content-length": 20 }, part],
    ["a content-range without the size", 206, { ...good, "content-range": "bytes 10-29/*" }, part],
    [
      "a body that a proxy has packed",
      206,
      { ...good, "content-length": gzipSync(part).length, "content-encoding": "gzip" },
      gzipSync(part),
    ],
    [
      "a body that a proxy has unpacked",
      206,
      { "content-range": "bytes 10-29/100", "content-length": 57 },
      Buffer.alloc(57),
    ],
    ["chunks that are a byte short", 206, chunkedRange, part.subarray(1)],
    ["chunks with a byte too many", 206, chunkedRange, whole.subarray(10, 31)],
    [
      "a 200 whose content-range misses the first byte",
      200,
      { "content-range": "bytes 11-99/100" },
      whole.subarray(11),
    ],
    [
      "a 200 whose content-range misses the last byte",
      200,
      { "content-range": "bytes 0-28/100" },
      whole.subarray(0, 29),
    ],
    [
      "a 200 with a byte less than its content-range",
      200,
      { "content-range": "bytes 0-99/100" },
      whole.subarray(0, 99),
    ],
    ["a content-range past the size", 200, { "content-range": "bytes 0-100/100" }, Buffer.alloc(101)],
  ])("%s is CORRUPT", async (_what, status, headers, body) => {
    expect((await read(answer(status, headers, body))).got).toBe("CORRUPT");
  });

  // Red with `status !== 206` as before (the 200s), and with `declaredLength` before the look at the content-range (those without a length).
  it.each<[string, number, Record<string, string | number>, Buffer]>([
    ["a 206 in chunks, without a length,", 206, chunkedRange, part],
    ["a 200 whose content-range is what was asked for", 200, good, part],
    ["the same in chunks", 200, chunkedRange, part],
    ["a 200 whose content-range is the whole object", 200, { "content-length": 100, ...wholeRange }, whole],
    ["the same in chunks", 200, { ...wholeRange, "transfer-encoding": "chunked" }, whole],
    [
      "a 200 whose content-range is wider at its end",
      200,
      { "content-range": "bytes 10-49/100" },
      whole.subarray(10, 50),
    ],
  ])("%s is the range", async (_what, status, headers, body) => {
    expect((await read(answer(status, headers, body))).got).toBe(part.toString());
  });

  it("a wider 200 that comes in small pieces is cut at the right bytes", async () => {
    const pieces: Script = (_seen, response) => {
      response.writeHead(200, { etag: '"e"', "content-length": 100, ...wholeRange });
      for (const byte of whole) response.write(Buffer.of(byte));
      response.end();
    };
    expect((await read(pieces)).got).toBe(part.toString());
  });

  it.each<[string, number, Record<string, string | number>]>([
    ["a 206 to the whole object", 206, { "content-length": 100, "content-range": "bytes 0-99/100" }],
    ["an encoding", 200, { "content-length": 100, "content-encoding": "aws-chunked" }],
    ["a wrong CRC-32 (B26 c)", 200, { "content-length": 100, "x-amz-checksum-crc32": "AAAAAA==" }],
  ])("whole object: %s is CORRUPT", async (_what, status, headers) => {
    expect((await read(answer(status, headers, whole), { range: null })).got).toBe("CORRUPT");
  });

  // Red without the look at the etag: the bytes of an error, or of a proxy's page, were the object's.
  it.each([
    ["an error document", "<Error><Code>InternalError</Code></Error>"],
    ["a proxy's page", "<html><body>sign in</body></html>"],
    ["nothing", ""],
  ])("a 200 with %s and no etag is no object: CORRUPT", async (_what, page) => {
    const server = await scriptedS3((seen, response) => {
      response.writeHead(200, { "content-length": page.length }).end(seen.op === "get" ? page : undefined);
    });
    await expect(storeOn(server).get("k", { signal: never })).rejects.toMatchObject({ code: "CORRUPT" });
    await expect(storeOn(server).head("k", { signal: never })).rejects.toMatchObject({ code: "CORRUPT" });
  });

  it("the CRC-32 of parts is not the object's and is not compared", async () => {
    const headers = { "content-length": 100, "x-amz-checksum-crc32": "AAAAAA==-2", "x-amz-checksum-type": "COMPOSITE" };
    expect((await read(answer(200, headers, whole), { range: null })).got).toBe(whole.toString());
    // Red without the look at the value: not every store tells the type.
    const untold = { "content-length": 100, "x-amz-checksum-crc32": "AAAAAA==-3" };
    expect((await read(answer(200, untold, whole), { range: null })).got).toBe(whole.toString());
  });
});

describe("a read that breaks", () => {
  it("a body that ends early is read again", async () => {
    const { got, server } = await read((seen, response, honest) => {
      if (seen.nth > 1) {
        honest();
        return;
      }
      response.writeHead(206, { ...good, etag: '"e"' }).write(part.subarray(0, 5), () => reset(response));
    });
    expect(got).toBe(part.toString());
    expect(ops(server)).toBe("get get");
  });

  it("B6 a body that stalls ends at the signal, with its error, and the socket is closed", async () => {
    let close = (): void => undefined;
    const closed = new Promise<void>((resolve) => (close = resolve));
    let arrive = (): void => undefined;
    const written = new Promise<void>((resolve) => (arrive = resolve));
    const server = await scriptedS3((_seen, response) => {
      response.socket?.on("close", () => close());
      response.writeHead(206, { ...good, etag: '"e"', "x-amz-checksum-crc32": "AAAAAA==" });
      response.write(part.subarray(0, 5), () => arrive());
    });
    const abort = new AbortController();
    const deadline = Object.assign(new Error("ran out"), { code: "DEADLINE_EXCEEDED" });
    const got = storeOn(server).get("k", { range, signal: abort.signal });
    await written;
    // The client reads what was written in one of the next turns, and waits for the rest from then on.
    for (let turn = 0; turn < 20; turn++) await nextTurn();
    abort.abort(deadline);
    await expect(got).rejects.toBe(deadline);
    await closed;
  });

  it("403 to a HEAD is ACCESS_DENIED and says which permission shows absence; it is never null", async () => {
    const server = await scriptedS3((_seen, response) => refuse(response, 403));
    await expect(storeOn(server).head("k", { signal: never })).rejects.toMatchObject({
      code: "ACCESS_DENIED",
      message: expect.stringContaining("s3:ListBucket") as string,
    });
    expect(ops(server)).toBe("head");
  });

  it("a HEAD whose answer has no length is CORRUPT", async () => {
    const server = await scriptedS3(
      (_seen, response) => void response.writeHead(200, { "transfer-encoding": "chunked" }).end(),
    );
    await expect(storeOn(server).head("k", { signal: never })).rejects.toMatchObject({ code: "CORRUPT" });
  });

  it("B5 an error body that claims gzip and is not keeps its status, and nothing escapes", async () => {
    const { got } = await read(
      (_seen, response) => void response.writeHead(503, { "content-encoding": "gzip" }).end("not gzip"),
    );
    expect(got).toBe("UNAVAILABLE");
  });
});

it("a store that ignores the condition of a read gives no other object for the one that was asked for", async () => {
  const server = await scriptedS3(answer(206, good, part));
  const store = storeOn(server);
  expect((await store.get("k", { range, ifMatch: "e", signal: never })).info.etag).toBe("e");
  const other = await store
    .get("k", { range, ifMatch: "stale", signal: never })
    .catch((error: unknown) => errorCode(error));
  expect(other).toBe("PRECONDITION_FAILED");
});
