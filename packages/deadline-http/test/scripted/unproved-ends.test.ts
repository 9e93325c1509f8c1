// Goal: a body of which nothing shows that it is whole is never handed out as one, by any client that is bound. Method: a scripted server whose
// answers end with their connection, or before the length that they declared; ClickHouse's cases are in answer-bodies.test.ts.
import { describe, expect, it } from "vitest";
import { within } from "@holdfast/deadline-http";
import { bindFetch } from "@holdfast/deadline-http/fetch";
import { at, boundS3, get, put, sdk } from "../support/aws.js";
import { failure } from "../support/clickhouse.js";
import { boundStorage, vendorOf } from "../support/gcs.js";
import { answer, withServer, type Answer } from "../support/scripted-server.js";

const text = "x".repeat(40);

/** 40 of 100 bytes, then the connection ends in good order. */
const cutShort: Answer = (response) => {
  response.writeHead(200, { "content-length": "100", etag: '"e"' });
  response.write(text, () => response.socket?.end());
};

/** A status with its headers, and an end of the connection for the end of the body. */
const closing =
  (status: number, body: string, headers: Record<string, string> = {}): Answer =>
  (response) => {
    response.useChunkedEncodingByDefault = false;
    response.shouldKeepAlive = false;
    response.writeHead(status, { connection: "close", etag: '"e"', ...headers });
    response.end(body);
  };

interface Client {
  readonly name: string;
  readonly skip: boolean;
  readonly read: (url: string, maxAttempts?: number) => Promise<unknown>;
  readonly write: (url: string, maxAttempts?: number) => Promise<unknown>;
}

const fetching = (url: string, maxAttempts: number | undefined, init?: RequestInit): Promise<Response> =>
  bindFetch(fetch, { maxAttempts })(url, init);

const storages = await Promise.all(([7, 8] as const).map(vendorOf));
const clients: readonly Client[] = [
  {
    name: "./aws",
    skip: false,
    read: async (url, maxAttempts) => (await get(boundS3(url, { maxAttempts }))).Body!.transformToByteArray(),
    write: (url, maxAttempts) => put(boundS3(url, { maxAttempts })),
  },
  ...storages.map((vendor): Client => {
    const file = (url: string, maxAttempts?: number) =>
      boundStorage(vendor, url, { maxAttempts }).bucket("b").file("f");
    return {
      name: `./gcs with ${vendor.name}`,
      skip: vendor.Storage === null,
      read: (url, maxAttempts) => file(url, maxAttempts).download({ validation: false }),
      write: (url, maxAttempts) => file(url, maxAttempts).save(text, { resumable: false, validation: false }),
    };
  }),
  {
    name: "./fetch",
    skip: false,
    read: async (url, maxAttempts) => (await fetching(url, maxAttempts)).arrayBuffer(),
    write: async (url, maxAttempts) => (await fetching(url, maxAttempts, { method: "POST", body: text })).text(),
  },
];

/** The error of a call whose bound is far away. */
const inScope = (call: () => Promise<unknown>) => failure(() => within(600_000, call));

const broken = { code: "REQUEST_FAILED", outcome: "unknown", timedOut: false };

describe.each(clients)("$name", ({ skip, read, write }) => {
  // Before, each gave out the 40 bytes, or nothing, as all of it.
  it.skipIf(skip)(
    "DL-25 a body that ends with its connection is an error, read again and not taken for whole",
    async () => {
      for (const body of [text, '{"name":"f"}', ""]) {
        await withServer([closing(200, body)], async (server) => {
          const failed = await inScope(() => read(server.url, 1));
          expect(failed).toMatchObject({ ...broken, httpStatus: 200 });
          expect(failed.message).toContain("neither a length nor chunks");
          expect(server.received).toHaveLength(1);
        });
      }
      await withServer([closing(200, text), answer.rows(text)], async (server) => {
        const whole = await within(600_000, () => read(server.url, 2));
        expect(Buffer.from((Array.isArray(whole) ? whole[0] : whole) as Uint8Array).toString()).toBe(text);
        expect(server.received).toHaveLength(2);
      });
    },
  );

  it.skipIf(skip)("DL-25 of a write it is an error of unknown outcome, and the write is sent once", async () => {
    await withServer([closing(200, '{"name":"f"}')], async (server) => {
      expect(await inScope(() => write(server.url, 3))).toMatchObject(broken);
      expect(server.received).toHaveLength(1);
    });
  });

  it.skipIf(skip)("DL-25 a body that is cut short of its length is an error", async () => {
    await withServer([cutShort], async (server) => {
      expect(await inScope(() => read(server.url, 1))).toMatchObject(broken);
    });
  });

  it.skipIf(skip)("an error status that ends with its connection, as a proxy answers, keeps its status", async () => {
    await withServer([closing(404, "<html>not here</html>")], async (server) => {
      const failed = await inScope(async () => {
        const got = await read(server.url, 3);
        // fetch resolves whatever the status; only the body of a 2xx is data.
        expect(Buffer.from(got as ArrayBuffer).toString()).toBe("<html>not here</html>");
        throw Object.assign(new Error("as fetch"), { httpStatus: 404 });
      });
      expect(failed).toMatchObject({ httpStatus: 404 });
      expect(server.received).toHaveLength(1);
    });
  });
});

describe("what proves its end, or has none", () => {
  const chunked: Answer = (response) => response.writeHead(200, { etag: '"e"' }).end(text);

  it("chunks are proof, and a length of nothing is one", async () => {
    for (const one of clients.filter(({ skip }) => !skip)) {
      for (const script of [chunked, answer.ok]) {
        await withServer([script], async (server) => {
          await one.read(server.url);
          expect(server.received).toHaveLength(1);
        });
      }
    }
  });

  it("HEAD, 204 and 304 have no body, however the connection ends", async () => {
    await withServer([closing(200, "")], async (server) => {
      expect((await boundS3(server.url).send(new sdk.HeadObjectCommand(at))).ETag).toBe('"e"');
      const response = await fetching(server.url, undefined, { method: "HEAD" });
      expect([response.status, await response.text()]).toEqual([200, ""]);
    });
    await withServer([closing(204, "")], async (server) => {
      expect((await boundS3(server.url).send(new sdk.DeleteObjectCommand(at))).$metadata.httpStatusCode).toBe(204);
      const response = await fetching(server.url, undefined, { method: "DELETE" });
      expect([response.status, await response.text()]).toEqual([204, ""]);
    });
    await withServer([closing(304, "")], async (server) => {
      const response = await fetching(server.url, undefined);
      expect([response.status, await response.text()]).toEqual([304, ""]);
    });
  });
});

describe("a response of fetch that cannot prove its end", () => {
  it("DL-25 has its status and headers, and fails whatever reads it", async () => {
    await withServer([closing(200, text)], async (server) => {
      const readers: ((response: Response) => Promise<unknown>)[] = [
        (response) => response.text(),
        (response) => response.json(),
        (response) => response.clone().text(),
        async (response) => {
          for await (const chunk of response.body!) expect.unreachable(String(chunk));
        },
      ];
      for (const reader of readers) {
        const response = await bindFetch()(server.url);
        expect([response.status, response.headers.get("etag")]).toEqual([200, '"e"']);
        await expect(reader(response)).rejects.toMatchObject({ ...broken, httpStatus: 200 });
      }
    });
  });

  it("is as it came from a fetch of another make, which may have other ways to know", async () => {
    const response = await bindFetch(() => Promise.resolve(new Response(text)))("http://a/");
    expect(await response.text()).toBe(text);
  });
});
