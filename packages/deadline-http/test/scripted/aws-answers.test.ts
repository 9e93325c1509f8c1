// Goal: what a store answers becomes the right outcome, is repeated only where that is safe, and stays recognisable.
// Method: the real S3Client against a server that answers by a script; the server counts the requests. Pauses between attempts pass on the
// virtual clock.
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Readable } from "node:stream";
import { inspect } from "node:util";
import type { S3Client } from "@aws-sdk/client-s3";
import { patient } from "@holdfast-private/tests-machine";
import { describe, expect, it, onTestFinished } from "vitest";
import { within } from "@holdfast/deadline-http";
import { bind } from "@holdfast/deadline-http/aws";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { boundS3, credentials, object, plainS3, s3Error, sdk, stored } from "../support/aws.js";
import { failure } from "../support/clickhouse.js";
import { answer, withServer, type Answer } from "../support/scripted-server.js";
import { endsByBound, running, throughPauses } from "../support/virtual-bound.js";

const at = { Bucket: "b", Key: "k" };
const get = (s3: S3Client) => s3.send(new sdk.GetObjectCommand(at));
const put = (s3: S3Client) => s3.send(new sdk.PutObjectCommand({ ...at, Body: "text" }));
/** Far more than a call needs. */
const inTime = <T>(call: () => Promise<T>): Promise<T> => within(600_000, call, { name: "the bound" });
/** The error of a call whose pauses take no time. The client is made for the clock. */
const failing = (call: (clock: VirtualClock) => Promise<unknown>) => {
  const clock = new VirtualClock();
  const end = failure(() => within(5_000, () => call(clock), { name: "the bound", clock }));
  return throughPauses(clock, 2, running(end));
};

/** A server that sees headers, and answers by a function. */
async function serverOf(
  handle: (request: IncomingMessage, response: ServerResponse, body: Buffer, number: number) => void,
  continues?: (request: IncomingMessage, response: ServerResponse) => boolean,
): Promise<{ url: string; seen: IncomingHttpHeaders[]; asked: () => number }> {
  const seen: IncomingHttpHeaders[] = [];
  let asked = 0;
  const onRequest = (request: IncomingMessage, response: ServerResponse): void => {
    const chunks: Buffer[] = [];
    request.on("error", () => undefined);
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => handle(request, response, Buffer.concat(chunks), seen.push(request.headers)));
  };
  const server = createServer(onRequest);
  server.on("checkContinue", (request: IncomingMessage, response: ServerResponse) => {
    asked += 1;
    if (continues && !continues(request, response)) return;
    response.writeContinue();
    onRequest(request, response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen, asked: () => asked };
}

describe("DL-09 DL-12 what an answer means, and how often the server is asked with a budget of 3", () => {
  it.each([
    // status, code, outcome of a write, requests of a write, requests of a read
    [403, "AccessDenied", "refused", 1, 1],
    [404, "NoSuchBucket", "refused", 1, 1],
    [404, "NoSuchKey", "refused", 1, 1],
    [403, "InvalidAccessKeyId", "refused", 1, 1],
    [403, "SignatureDoesNotMatch", "refused", 1, 1],
    [412, "PreconditionFailed", "refused", 1, 1],
    [409, "ConditionalRequestConflict", "refused", 1, 1],
    [400, "InvalidArgument", "refused", 1, 1],
    [400, "EntityTooLarge", "refused", 1, 1],
    [416, "InvalidRange", "refused", 1, 1],
    [405, "MethodNotAllowed", "refused", 1, 1],
    [501, "NotImplemented", "refused", 1, 1],
    [503, "SlowDown", "refused", 3, 3],
    [400, "Throttling", "refused", 3, 3],
    [503, "RequestLimitExceeded", "refused", 3, 3],
    [429, null, "refused", 3, 3],
    [403, "RequestTimeTooSkewed", "refused", 3, 3],
    [500, "InternalError", "unknown", 1, 3],
    [503, "ServiceUnavailable", "unknown", 1, 3],
    [502, null, "unknown", 1, 3],
    [400, "SomethingNew", "unknown", 1, 1],
  ] as const)("%i %s", async (status, code, outcome, writes, reads) => {
    await withServer([s3Error(status, code)], async (server) => {
      const write = await failing((clock) => put(boundS3(server.url, { clock })));
      expect(write).toMatchObject({ code: "REQUEST_FAILED", outcome, timedOut: false, httpStatus: status });
      expect(server.received).toHaveLength(writes);
      const read = await failing((clock) => get(boundS3(server.url, { clock })));
      expect(read).toMatchObject({ code: "REQUEST_FAILED", outcome: "refused", httpStatus: status });
      expect(server.received).toHaveLength(writes + reads);
    });
  });

  it.each([
    [400, "RequestTimeout"],
    [408, null],
  ])("DL-10 the service's own time limit (%i %s) is a timeout and ends it", async (status, code) => {
    await withServer([s3Error(status, code)], async (server) => {
      for (const call of [put, get]) {
        const failed = await failing((clock) => call(boundS3(server.url, { clock })));
        expect(failed).toMatchObject({ code: "REQUEST_FAILED", timedOut: true, outcome: "unknown" });
        expect(failed.message).toContain("the bound of 5000 ms");
      }
      expect(server.received).toHaveLength(2);
    });
  });

  it("DL-09 an error inside a 200 is unknown, a throttle too, and is not repeated", async () => {
    for (const code of ["InternalError", "SlowDown", "AccessDenied"]) {
      await withServer([s3Error(200, code)], async (server) => {
        const s3 = boundS3(server.url);
        const copy = new sdk.CopyObjectCommand({ ...at, CopySource: "b/other" });
        const parts = { ...at, UploadId: "u", MultipartUpload: { Parts: [{ ETag: "e", PartNumber: 1 }] } };
        for (const call of [() => s3.send(copy), () => s3.send(new sdk.CompleteMultipartUploadCommand(parts))]) {
          expect(await failure(() => inTime(call))).toMatchObject({ outcome: "unknown", httpStatus: 200 });
        }
        expect(server.received).toHaveLength(2);
      });
    }
  });

  it("a checksum that does not match is an error of the body", async () => {
    await withServer([object("hello", { "x-amz-checksum-crc32": "7QY/BQ==" })], async (server) => {
      const read = async () => (await get(boundS3(server.url))).Body!.transformToString();
      const failed = await failure(() => inTime(read));
      expect(failed).toMatchObject({ code: "REQUEST_FAILED", httpStatus: 200 });
      expect(failed.message).toContain("Checksum mismatch");
    });
  });
});

describe("attempts", () => {
  it("DL-12 a listing whose second page is throttled twice completes, and one that is cut is read again", async () => {
    const page = (n: number, next: string): Answer =>
      object(`<ListBucketResult><Contents><Key>k${n}</Key></Contents>${next}</ListBucketResult>`);
    const first = page(1, "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>");
    const slow = s3Error(503, "SlowDown");
    await withServer([first, slow, slow, page(2, ""), answer.cutAfter("<ListBucketResult>"), first], async (server) => {
      const client = boundS3(server.url);
      const keys = await inTime(async () => {
        const found: (string | undefined)[] = [];
        for await (const { Contents } of sdk.paginateListObjectsV2({ client }, { Bucket: "b" }))
          found.push(...(Contents ?? []).map(({ Key }) => Key));
        return found;
      });
      expect(keys).toEqual(["k1", "k2"]);
      const again = await inTime(() => client.send(new sdk.ListObjectsV2Command({ Bucket: "b" })));
      expect(again.Contents).toHaveLength(1);
      expect(server.received).toHaveLength(6);
    });
  });

  it("no budget of the client's is used up by other calls", async () => {
    const fails = Array.from({ length: 60 }, () => answer.status(503));
    await withServer([...fails, s3Error(503, "SlowDown"), object("text")], async (server) => {
      const plain = plainS3(server.url);
      const heads = bind(plain, { maxAttempts: 1 });
      for (let n = 0; n < 60; n++)
        await heads.send(new sdk.HeadObjectCommand(at)).catch((error: unknown) => expect(error).toBeInstanceOf(Error));
      expect(await inTime(async () => (await get(bind(plain))).Body!.transformToString())).toBe("text");
      expect(server.received).toHaveLength(62);
    });
  });

  it("five parallel writes signed by a clock that is off all succeed, signed anew", async () => {
    const offMs = 20 * 60_000;
    const good: number[] = [];
    const server = await serverOf((request, response) => {
      const now = Date.now() + offMs;
      const stamp = String(request.headers["x-amz-date"]).replace(
        /^(....)(..)(..)T(..)(..)(..)Z$/,
        "$1-$2-$3T$4:$5:$6Z",
      );
      response.setHeader("date", new Date(now).toUTCString());
      if (Math.abs(now - Date.parse(stamp)) < 5 * 60_000) {
        good.push(now);
        response.writeHead(200).end();
      } else {
        const text = "<Error><Code>RequestTimeTooSkewed</Code><Message>off</Message></Error>";
        response.writeHead(403, { "content-type": "application/xml" }).end(text);
      }
    });
    const s3 = boundS3(server.url);
    await inTime(() => Promise.all([1, 2, 3, 4, 5].map(() => put(s3))));
    expect(good).toHaveLength(5);
    expect(server.seen).toHaveLength(10);
  });

  it("a stream goes again only when nothing was taken from it", async () => {
    const streamed = (s3: S3Client, Body: Readable) =>
      s3.send(new sdk.PutObjectCommand({ ...at, Body, ContentLength: 4 }));
    const body = (): Readable => Readable.from([Buffer.from("text")], { objectMode: false });
    await withServer([s3Error(503, "SlowDown"), stored], async (server) => {
      const s3 = boundS3(server.url, {}, { requestChecksumCalculation: "WHEN_REQUIRED" });
      const failed = await failure(() => inTime(() => streamed(s3, body())));
      expect(failed).toMatchObject({ outcome: "refused", httpStatus: 503 });
      expect(failed.message).toContain("its body is a stream and cannot be sent twice");
      expect(server.received).toHaveLength(1);
    });
    await withServer([stored], async (server) => {
      let asked = 0;
      const flaky = () => {
        asked += 1;
        const failed = Object.assign(new Error("no token"), { code: "ECONNREFUSED" });
        return asked === 1 ? Promise.reject(failed) : Promise.resolve(credentials);
      };
      const o = { requestChecksumCalculation: "WHEN_REQUIRED", credentials: flaky } as const;
      await inTime(() => streamed(boundS3(server.url, {}, o), body()));
      expect(asked).toBe(2);
      expect(server.received.map(({ body: text }) => text)).toEqual(["text"]);
    });
  });

  it("an upload that is answered half-way ends, and its connection goes", async () => {
    let closed = false;
    const server = createServer((request, response) => {
      request.on("error", () => undefined);
      request.socket.on("close", () => (closed = true)).pause();
      response.writeHead(503, { "content-type": "application/xml" });
      response.end("<Error><Code>SlowDown</Code><Message>made up</Message></Error>");
    });
    // The server waits for the rest of it, as long as it takes.
    patient(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void server.close());
    const s3 = boundS3(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const Body = new Readable({ read: () => undefined });
    Body.push("half");
    const upload = new sdk.PutObjectCommand({ ...at, Body, ContentLength: 100 });
    expect(await failure(() => inTime(() => s3.send(upload)))).toMatchObject({ outcome: "refused" });
    while (!closed) await new Promise((resolve) => setImmediate(resolve));
  });

  it("DL-07 uploads that ask first (2 MiB and more): not sent, refused before the body, stored", async () => {
    const Body = Buffer.alloc(3 * 1024 * 1024, "x");
    const upload = (url: string, maxAttempts = 3) =>
      boundS3(url, { maxAttempts }).send(new sdk.PutObjectCommand({ ...at, Body }));
    const unreachable = await failure(() => inTime(() => upload("http://127.0.0.1:1", 1)));
    expect(unreachable).toMatchObject({ outcome: "not-sent" });

    let asked = 0;
    let got = 0;
    const server = await serverOf(
      (_request, response, body) => {
        got = body.length;
        response.writeHead(200).end();
      },
      (_request, response) => {
        asked += 1;
        if (asked > 1) return true;
        s3Error(503, "SlowDown")(response, undefined as never);
        return false;
      },
    );
    await inTime(() => upload(server.url));
    expect([asked, got]).toEqual([2, Body.length]);

    const silent = await serverOf(
      () => undefined,
      () => false,
    );
    const hung = await endsByBound(
      () => upload(silent.url),
      () => silent.asked() === 1,
    );
    expect(hung).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
  });
});

describe("the vendor's error stays recognisable", () => {
  it("by name, class, status and members, and is the cause", async () => {
    await withServer([s3Error(404, "NoSuchKey", {}, "<Key>k</Key>")], async (server) => {
      const failed: unknown = await get(boundS3(server.url)).catch((error: unknown) => error);
      expect(failed).toMatchObject({
        name: "NoSuchKey",
        code: "REQUEST_FAILED",
        outcome: "refused",
        httpStatus: 404,
        $fault: "client",
        $metadata: { httpStatusCode: 404 },
        Key: "k",
        cause: { name: "NoSuchKey", message: "made up" },
      });
      expect(failed).toBeInstanceOf(sdk.NoSuchKey);
      expect(failed).toBeInstanceOf(sdk.S3ServiceException);
    });
  });

  it("so that the SDK's waiters work", async () => {
    await withServer([answer.status(404), stored], async (server) => {
      const o = { client: boundS3(server.url), minDelay: 0.01, maxDelay: 0.02, maxWaitTime: 600 };
      expect(await inTime(() => sdk.waitUntilObjectExists(o, at))).toMatchObject({ state: "SUCCESS" });
      expect(server.received).toHaveLength(2);
    });
  });

  it("a condition that does not hold is told by its status", async () => {
    await withServer([answer.status(304)], async (server) => {
      const failed = await failure(() =>
        inTime(() => boundS3(server.url).send(new sdk.GetObjectCommand({ ...at, IfNoneMatch: '"e"' }))),
      );
      expect(failed).toMatchObject({ code: "REQUEST_FAILED", httpStatus: 304, outcome: "refused" });
    });
  });

  it("without the request's secrets, which S3 repeats", async () => {
    const more =
      `<Token-0>${credentials.sessionToken}</Token-0>` +
      `<CanonicalRequest>PUT x-amz-security-token:${credentials.sessionToken}</CanonicalRequest>`;
    for (const code of ["SignatureDoesNotMatch", "InvalidToken"]) {
      let signature = "";
      const refusal: Answer = (response, request) => {
        signature = /Signature=(\w+)/.exec(response.req.headers.authorization ?? "")?.[1] ?? "";
        const nested = `<Signed><SignatureProvided>${signature}</SignatureProvided>${more}</Signed>`;
        s3Error(403, code, {}, more + nested)(response, request);
      };
      await withServer([refusal], async (server) => {
        const failed = await failure(() => inTime(() => put(boundS3(server.url))));
        expect(failed).toMatchObject({ name: code, outcome: "refused", Signed: { SignatureProvided: "***" } });
        const whole = inspect(failed, { depth: 9 }) + JSON.stringify(failed) + failed.message;
        expect(whole).not.toMatch(/hidden-session|hidden-key|AWS4-HMAC/);
        expect(signature).toHaveLength(64);
        expect(whole).not.toContain(signature);
        expect(whole).toContain("x-amz-security-token:***");
      });
    }
  });
});
