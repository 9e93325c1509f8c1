// Goal: bodies and requests of a bound S3Client end by the deadline, whatever its transport, and the outcome says what the store may have done.
// Method: the real S3Client against a scripted server; conditions, not pauses, order the events, and bounds pass on the virtual clock.
import { getEventListeners } from "node:events";
import { Agent, request } from "node:http";
import type { Readable } from "node:stream";
import type { GetObjectCommandOutput, S3Client } from "@aws-sdk/client-s3";
import { describe, expect, it } from "vitest";
import { within } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { until } from "@holdfast-private/tests-machine";
import { allClosed, at, boundS3, get, object, plainS3, put, sdk, stored } from "../support/aws.js";
import { failure } from "../support/clickhouse.js";
import { answer, withServer, type Answer } from "../support/scripted-server.js";
import { endsByBound, endsIn, running } from "../support/virtual-bound.js";

type Body = NonNullable<GetObjectCommandOutput["Body"]>;

const readers: Record<string, (body: Body) => Promise<string>> = {
  transformToString: (body) => body.transformToString(),
  transformToByteArray: async (body) => Buffer.from(await body.transformToByteArray()).toString(),
  transformToWebStream: (body) => new Response(body.transformToWebStream()).text(),
  "for await": async (body) => {
    let text = "";
    for await (const chunk of body as AsyncIterable<Buffer>) text += chunk.toString();
    return text;
  },
};

const checksum = { "x-amz-checksum-crc32": "NhCmhg==" };

/** 5 of 40 bytes, then nothing; with a checksum the SDK puts a stream of its own around the body. */
const stalled =
  (headers: Record<string, string>): Answer =>
  (response) => {
    response.writeHead(200, { "content-length": "40", ...headers });
    response.write("hello");
  };

describe("the body of an object", () => {
  it.each(Object.entries(readers))("%s reads it whole, with and without a checksum", async (_name, reader) => {
    for (const headers of [{}, checksum]) {
      await withServer([object("hello", headers)], async (server) => {
        const s3 = boundS3(server.url);
        expect(await within(600_000, async () => reader((await get(s3)).Body!))).toBe("hello");
        // The connection went back to the pool: the next call uses it.
        expect(await within(600_000, async () => reader((await get(s3)).Body!))).toBe("hello");
        expect(server.connections).toHaveLength(1);
      });
    }
  });

  it.each(Object.entries(readers))("DL-03 %s of one that stalls ends by the bound", async (_name, reader) => {
    for (const headers of [{}, checksum]) {
      await withServer([stalled(headers)], async (server) => {
        let reading = false;
        const read = async (): Promise<string> => {
          const { Body } = await get(boundS3(server.url));
          reading = true;
          return reader(Body!);
        };
        const failed = await endsByBound(read, () => reading);
        expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown", timedOut: true });
        await allClosed(server.connections);
      });
    }
  });

  it.each(Object.entries(readers))(
    "%s of one that is cut tells it with this package's error",
    async (_name, reader) => {
      for (const headers of [{}, checksum]) {
        const cut: Answer = (response) => {
          stalled(headers)(response, undefined as never);
          setImmediate(() => response.destroy());
        };
        await withServer([cut], async (server) => {
          const failed = await failure(() =>
            within(600_000, async () => reader((await get(boundS3(server.url))).Body!)),
          );
          expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "unknown", timedOut: false });
        });
      }
    },
  );

  it.each(Object.entries(readers))(
    "DL-21 %s after its scope was left tells so; the socket is gone",
    async (_n, reader) => {
      for (const headers of [{}, checksum]) {
        await withServer([stalled(headers)], async (server) => {
          const s3 = boundS3(server.url);
          const { Body } = await within(600_000, () => get(s3));
          await allClosed(server.connections);
          expect(await failure(() => reader(Body!))).toMatchObject({ code: "SCOPE_CLOSED" });
        });
      }
    },
  );

  it("that is given up by its reader goes", async () => {
    await withServer([stalled({})], async (server) => {
      const s3 = boundS3(server.url, { requestTimeoutMs: 60_000 });
      const { Body } = await get(s3);
      (Body as unknown as { destroy(): void }).destroy();
      await allClosed(server.connections);
    });
  });

  it("DL-03 DL-18 a request made by one of its listeners is in the scope of the call", async () => {
    let rest = (): void => undefined;
    const inTwo: Answer = (response) => {
      response.writeHead(200, { "content-length": "10" }).write("hello");
      rest = () => void response.end("world");
    };
    await withServer([inTwo, answer.silent], async (server) => {
      const s3 = boundS3(server.url);
      let inner: unknown;
      const call = async (): Promise<void> => {
        const { Body } = await get(s3);
        (Body as Readable).once("end", () => {
          inner = failure(() => put(s3));
        });
        (Body as Readable).resume();
        // Now that it listens, the network reports the end, outside every scope.
        rest();
        await new Promise(() => undefined);
      };
      await endsByBound(call, () => server.received.length === 2);
      expect(await inner).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
    });
  });

  it("outside any scope requestTimeoutMs is the bound", async () => {
    await withServer([stalled({})], async (server) => {
      const clock = new VirtualClock();
      const { Body } = await get(boundS3(server.url, { requestTimeoutMs: 150, clock }));
      const failed = await endsIn(clock, 150, running(failure(() => Body!.transformToString())));
      expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", bound: { name: "requestTimeoutMs", ms: 150 } });
    });
  });

  it("DL-21 200 calls leave no listener on the caller's signal, 100 bodies left unread no socket", async () => {
    const { signal } = new AbortController();
    await withServer([object("hello", checksum)], async (server) => {
      const s3 = boundS3(server.url);
      for (let n = 0; n < 200; n++) {
        const { Body } = await s3.send(new sdk.GetObjectCommand(at), { abortSignal: signal });
        await Body!.transformToString();
      }
      await new Promise((resolve) => setImmediate(resolve));
      expect(getEventListeners(signal, "abort")).toHaveLength(0);
    });
    await withServer([stalled(checksum)], async (server) => {
      const s3 = boundS3(server.url);
      for (let n = 0; n < 100; n++) await within(600_000, () => get(s3));
      await allClosed(server.connections);
      expect(server.connections).toHaveLength(100);
    });
  });
});

describe("the transport", () => {
  it("DL-11 its own time limits are timeouts with their own bound, and are not repeated", async () => {
    await withServer([stored, answer.silent, stored, answer.silent], async (server) => {
      const httpAgent = new Agent({ keepAlive: true });
      // A connection that stands: no machine is too slow to send within the limit.
      const limited = async (limit: object): Promise<S3Client> => {
        await put(plainS3(server.url, { requestHandler: { httpAgent } }));
        await until("the connection is free", () => Object.values(httpAgent.freeSockets).flat().length === 1);
        return boundS3(server.url, {}, { requestHandler: { httpAgent, ...limit } });
      };
      const request = await limited({ requestTimeout: 100, throwOnRequestTimeout: true });
      expect(await failure(() => get(request))).toMatchObject({
        code: "DEADLINE_EXCEEDED",
        outcome: "unknown",
        bound: { name: "the client's requestTimeout", ms: 100, knobs: { "requestHandler.requestTimeout": 100 } },
      });
      const socket = await limited({ socketTimeout: 120 });
      expect(await failure(() => get(socket))).toMatchObject({
        code: "DEADLINE_EXCEEDED",
        outcome: "unknown",
        bound: { ms: 120 },
      });
      await until("all have arrived", () => server.received.length >= 4);
      expect(server.received).toHaveLength(4);
    });
  });

  it("DL-07 of another make counts as sent from its start, unless an error's code proves otherwise", async () => {
    const handle = (answered: () => Promise<never>) => ({ handle: answered, metadata: { handlerProtocol: "other" } });
    const coded = (code: string) => () => Promise.reject(Object.assign(new Error("x"), { code }));
    const putBy = (answered: () => Promise<never>) => () =>
      put(boundS3("http://a", { maxAttempts: 1 }, { requestHandler: handle(answered) }));
    expect((await failure(putBy(coded("ECONNREFUSED")))).outcome).toBe("not-sent");
    expect((await failure(putBy(coded("ECONNRESET")))).outcome).toBe("unknown");
    let asked = false;
    const silent = putBy(() => new Promise(() => (asked = true)));
    expect((await endsByBound(silent, () => asked)).outcome).toBe("unknown");
  });

  it("DL-07 other requests in the same context do not count for the attempt's own", async () => {
    await withServer([answer.silent], async (server) => {
      const agent = new Agent({ lookup: () => undefined });
      // It sends the request in a way of its own, and asks somebody else over node:http, who is never found.
      const handler = {
        handle: async (): Promise<never> => {
          const other = request("http://localhost:9/b/k", { method: "PUT", agent }).end();
          other.on("error", () => undefined);
          await fetch(server.url, { method: "PUT", body: "text" }).finally(() => other.destroy());
          throw new Error("unreachable: the server is silent");
        },
        metadata: { handlerProtocol: "other" },
      };
      const failed = await endsByBound(
        () => put(boundS3(server.url, {}, { requestHandler: handler })),
        () => server.received.length === 1,
      );
      expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
      expect(server.received).toHaveLength(1);
    });
  });

  it("DL-08 a redirect to another region was sent, whatever becomes of the second request", async () => {
    const moved: Answer = (response) =>
      response
        .writeHead(301, { "x-amz-bucket-region": "us-west-2", "content-type": "application/xml", connection: "close" })
        .end("<Error><Code>PermanentRedirect</Code><Message>there</Message></Error>");
    await withServer([moved], async (server) => {
      let asked = 0;
      const httpAgent = new Agent({
        keepAlive: true,
        // The second connection never comes to be.
        lookup: (_host, _o, callback) => {
          asked += 1;
          if (asked === 1) callback(null, [{ address: "127.0.0.1", family: 4 }]);
        },
      });
      const o = { followRegionRedirects: true, requestHandler: { httpAgent } };
      const s3 = boundS3(`http://localhost:${server.port}`, {}, o);
      const failed = await endsByBound(
        () => put(s3),
        () => asked === 2,
      );
      expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
      expect([asked, server.received.length]).toEqual([2, 1]);
    });
  });
});
