// Goal: a bound S3Client shares credentials and connections with the caller's client and leaves that as it was. Method: the real S3Client against a
// scripted server; conditions, not pauses, order the events, and bounds pass on the virtual clock.
import { describe, expect, it } from "vitest";
import { detached, within } from "@holdfast/deadline-http";
import { bind } from "@holdfast/deadline-http/aws";
import { bindFetch } from "@holdfast/deadline-http/fetch";
import { allClosed, at, boundS3, credentials, get, plainS3, put, sdk, stored } from "../support/aws.js";
import { failure } from "../support/clickhouse.js";
import { answer, withServer, type Answer } from "../support/scripted-server.js";
import { endsByBound } from "../support/virtual-bound.js";

describe("DL-22 credentials", () => {
  it("DL-22 are fetched once for all, outside the scope that asked first: it ends not-sent, the next one succeeds", async () => {
    await withServer([stored], async (server) => {
      let fetches = 0;
      let arrive = (): void => undefined;
      const arrived = new Promise<void>((resolve) => (arrive = resolve));
      const s3 = boundS3(
        server.url,
        {},
        {
          credentials: async () => {
            fetches += 1;
            await arrived;
            return credentials;
          },
        },
      );
      const first = await endsByBound(
        () => put(s3),
        () => fetches === 1,
      );
      expect(first).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent", timedOut: true });
      const second = within(600_000, () => put(s3));
      arrive();
      await second;
      expect(fetches).toBe(1);
      // The first one's request was not begun when they came after all.
      expect(server.received).toHaveLength(1);
    });
  });

  it("DL-22 a fetch of them through a bound client goes on when the asking scope ends", async () => {
    let respond = (): void => undefined;
    const slow: Answer = (response) => (respond = () => response.end("token"));
    await withServer([slow], async (tokens) => {
      await withServer([stored], async (server) => {
        const boundFetch = bindFetch();
        const fetched: string[] = [];
        const provider = async () => {
          fetched.push(await (await boundFetch(tokens.url)).text());
          return credentials;
        };
        const s3 = boundS3(server.url, {}, { credentials: provider });
        const first = await endsByBound(
          () => put(s3),
          () => tokens.received.length === 1,
        );
        expect(first).toMatchObject({ outcome: "not-sent" });
        const second = within(600_000, () => put(s3));
        respond();
        await second;
        expect(fetched).toEqual(["token"]);
        expect(tokens.received).toHaveLength(1);
      });
    });
  });

  it("DL-22 that come too late begin no request, whatever the transport", async () => {
    let arrive = (): void => undefined;
    const arrived = new Promise<void>((resolve) => (arrive = resolve));
    const asked: string[] = [];
    const requestHandler = {
      handle: (sent: { path: string }): Promise<never> => {
        asked.push(sent.path);
        return Promise.reject(Object.assign(new Error("x"), { code: "ECONNRESET" }));
      },
      metadata: { handlerProtocol: "other" },
    };
    let fetching = false;
    const provider = () => {
      fetching = true;
      return arrived.then(() => credentials);
    };
    const s3 = boundS3("http://a", { maxAttempts: 1 }, { requestHandler, credentials: provider });
    await endsByBound(
      () => put(s3),
      () => fetching,
    );
    arrive();
    expect(await failure(() => within(600_000, () => put(s3)))).toMatchObject({ outcome: "unknown" });
    expect(asked).toHaveLength(1);
  });

  it("that cannot be obtained are an error that is not sent, with its cause", async () => {
    await withServer([stored], async (server) => {
      const none = boundS3(server.url, {}, { credentials: () => Promise.reject(new Error("no credentials here")) });
      const failed = await failure(() => within(600_000, () => put(none)));
      expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "not-sent", timedOut: false });
      expect(failed.message).toContain("no credentials here");
      expect(server.connections).toHaveLength(0);
    });
  });
});

describe("the caller's client", () => {
  it("is not changed, shares the connection, and works unbound", async () => {
    await withServer([stored], async (server) => {
      const plain = plainS3(server.url);
      const before = { handler: plain.config.requestHandler, stack: plain.middlewareStack.identify() };
      const s3 = bind(plain);
      expect(s3).toBeInstanceOf(sdk.S3Client);
      await within(600_000, () => put(s3));
      await put(plain);
      // In a scope that is over: the plain client does not look at it.
      await within(600_000, () => detached(() => put(plain)));
      expect(server.connections).toHaveLength(1);
      expect(plain.config.requestHandler).toBe(before.handler);
      expect(plain.middlewareStack.identify()).toEqual(before.stack);
      expect(Object.keys({ ...s3.config })).toEqual(Object.keys({ ...plain.config }));
    });
  });

  it("is closed by destroy() of the bound one", async () => {
    await withServer([stored], async (server) => {
      const plain = plainS3(server.url);
      await put(plain);
      bind(plain).destroy();
      await allClosed(server.connections);
    });
  });

  it("its middleware runs in the bound one, what is added to the bound one there only, and retries of its own do not", async () => {
    await withServer([answer.status(503)], async (server) => {
      const plain = plainS3(server.url, { maxAttempts: 5 });
      const ran: string[] = [];
      const note =
        (name: string) =>
        <T>(next: T): T => {
          ran.push(name);
          return next;
        };
      plain.middlewareStack.add(note("caller's"), { step: "build" });
      const s3 = bind(plain, { maxAttempts: 2 });
      s3.middlewareStack.add(note("bound's"), { step: "build" });
      await failure(() => get(s3));
      expect(server.received).toHaveLength(2);
      expect(ran.sort()).toEqual(["bound's", "bound's", "caller's", "caller's"]);
      await failure(() => put(bind(s3, { maxAttempts: 1 })));
      expect(server.received).toHaveLength(3);
      expect(ran).toHaveLength(6);
    });
  });

  it("may be asked with a callback, or by the methods of the aggregated client", async () => {
    await withServer([stored, stored, answer.status(404)], async (server) => {
      const s3 = boundS3(server.url);
      const called = (ms: number) =>
        new Promise<unknown[]>((resolve) => {
          void within(ms, async () => {
            await new Promise<void>((done) => {
              s3.send(new sdk.HeadObjectCommand(at), (error: unknown, output?: object) => {
                resolve([(error as { code?: string } | null)?.code, output && "ETag" in output]);
                done();
              });
            });
          });
        });
      expect(await called(600_000)).toEqual([undefined, true]);
      const all = bind(new sdk.S3({ region: "eu-west-1", endpoint: server.url, forcePathStyle: true, credentials }));
      expect(await within(600_000, () => all.headObject(at))).toMatchObject({ ETag: '"e"' });
      expect(await called(600_000)).toEqual(["REQUEST_FAILED", undefined]);
    });
  });

  it("of another make, an option or a signal that cannot work are refused", async () => {
    expect(() => bind({ config: {}, middlewareStack: {}, send: () => 0, destroy: () => undefined })).toThrow(TypeError);
    const plain = plainS3("http://127.0.0.1:1");
    expect(() => bind(plain, { maxAttempts: 0.5 })).toThrow(/CONFIG_INVALID.*maxAttempts/);
    expect(() => bind(plain, { requestTimeoutMs: NaN })).toThrow(/CONFIG_INVALID.*requestTimeoutMs/);
    const legacy = { aborted: false, onabort: null } as unknown as AbortSignal;
    const sent = bind(plain).send(new sdk.HeadObjectCommand(at), { abortSignal: legacy });
    await expect(sent).rejects.toThrow(/CONFIG_INVALID.*abortSignal/);
  });
});
