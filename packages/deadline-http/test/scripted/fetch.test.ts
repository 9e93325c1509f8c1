// Goal: fetch keeps the same bounds and outcomes as every other client here. Method: Node's own fetch against a scripted
// server; one fake fetch for what must hold for any. Bounds pass on the virtual clock, when a call hangs.
import { inspect } from "node:util";
import { describe, expect, it } from "vitest";
import { instantAfter, within, withDeadline } from "@holdfast/deadline-http";
import { bindFetch } from "@holdfast/deadline-http/fetch";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { until } from "@holdfast-private/tests-machine";
import { closedPort } from "@holdfast/testkit";
import { failure } from "../support/clickhouse.js";
import { answer, arrivals, withServer, type Answer } from "../support/scripted-server.js";
import { endsByBound, turns } from "../support/virtual-bound.js";

const post = { method: "POST", body: "x" } as const;

describe("one bound", () => {
  it("over headers and body, whatever reads it", async () => {
    const bound = bindFetch();
    await withServer([answer.silent], async (server) => {
      const failed = await endsByBound(
        () => bound(server.url, post),
        () => server.received.length === 1,
      );
      expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown", timedOut: true });
    });
    const readers: ((response: Response) => Promise<unknown>)[] = [
      (response) => response.text(),
      (response) => response.json(),
      (response) => response.arrayBuffer(),
      (response) => response.clone().text(),
      async (response) => {
        for await (const chunk of response.body!) expect(chunk).toBeInstanceOf(Uint8Array);
      },
    ];
    for (const script of [answer.stalled("abc"), answer.trickle(30)]) {
      await withServer([script], async (server) => {
        for (const reader of readers) {
          let responded = false;
          const read = async (): Promise<unknown> => {
            const response = await bound(server.url);
            responded = true;
            return reader(response);
          };
          const failed = await endsByBound(read, () => responded);
          expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
        }
        expect(server.received).toHaveLength(readers.length);
        // undici opens another connection when one with a request on it goes.
        const gone = (): boolean =>
          server.received.every(({ connection }) => server.connections[connection]?.destroyed);
        await until("their connections go", gone);
      });
    }
  });

  it("DL-03 what nobody bounds has a connection to itself after one that was bound", async () => {
    const bound = bindFetch();
    await withServer([answer.rows("answer")], async (server) => {
      const from = async (one: typeof fetch) => {
        expect(await (await one(server.url, post)).text()).toBe("answer");
        return server.received.at(-1)?.connection;
      };
      // undici opens a second connection when it likes; they are used in turn.
      const before = [];
      const clock = new VirtualClock();
      for (let i = 0; i < 3; i++) before.push(await within(1_000, () => from(bound), { clock }));
      // With that the bound of what they carried has passed.
      await clock.advance(1_000);
      expect(before).toContain(await from(fetch));
    });
  });

  it("under 1 ms left nothing is sent; an abort is CANCELED, before and after", async () => {
    const bound = bindFetch();
    await withServer([answer.stalled("abc")], async (server) => {
      const clock = new VirtualClock();
      const soon = instantAfter(clock.now(), 0.9);
      const failed = await failure(() => withDeadline(soon, () => bound(server.url), { clock }));
      expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
      const before = await failure(() => bound(server.url, { ...post, signal: AbortSignal.abort() }));
      expect(before).toMatchObject({ code: "CANCELED", outcome: "not-sent" });
      await turns();
      expect(server.connections).toEqual([]);
      const controller = new AbortController();
      void arrivals(server, 1).then(() => controller.abort());
      const read = async (): Promise<string> =>
        (await bound(server.url, { ...post, signal: controller.signal })).text();
      const after = await failure(read);
      expect(after).toMatchObject({ code: "CANCELED", outcome: "unknown" });
      expect(server.received).toHaveLength(1);
    });
  });

  it("a body left unread when its scope is left is destroyed, and outside any scope nothing binds", async () => {
    const bound = bindFetch();
    await withServer([answer.stalled("abc"), answer.rows("whole")], async (server) => {
      const response = await within(600_000, () => bound(server.url));
      expect(await failure(() => response.text())).toMatchObject({ code: "SCOPE_CLOSED" });
      await until("its connection goes", () => server.connections[0]?.destroyed === true);
      expect(await (await bound(server.url)).text()).toBe("whole");
    });
  });
});

describe("a fetch of another make", () => {
  it("DL-21 that watches no signal has its unread body given up, too", async () => {
    const given: unknown[] = [];
    const body = new ReadableStream({ cancel: (reason) => void given.push(reason) });
    const response = await within(600_000, () => bindFetch(async () => new Response(body))("http://a/"));
    expect(given).toMatchObject([{ code: "SCOPE_CLOSED" }]);
    expect(await failure(() => response.text())).toMatchObject({ code: "SCOPE_CLOSED" });
  });
});

describe("outcomes", () => {
  it("a refused connection is not sent, a reset one unknown, any status a response", async () => {
    const bound = bindFetch();
    const port = await closedPort();
    expect(await failure(() => bound(`http://127.0.0.1:${port}/`, post))).toMatchObject({
      code: "REQUEST_FAILED",
      outcome: "not-sent",
    });
    await withServer([answer.reset, answer.status(503, "busy")], async (server) => {
      expect(await failure(() => bound(server.url, post))).toMatchObject({
        code: "REQUEST_FAILED",
        outcome: "unknown",
      });
      const response = await bound(server.url);
      expect([response.status, await response.text(), response.url]).toEqual([503, "busy", `${server.url}/`]);
    });
  });

  it("a connection that does not come to be by the deadline is not sent", async () => {
    let made = false;
    const bound = bindFetch(async (_input, init) => {
      // As undici does it: a request is made, and nothing of it is written while it has no connection.
      const { channel } = await import("node:diagnostics_channel");
      channel("undici:request:create").publish({ request: {} });
      made = true;
      return new Promise((_resolve, reject) =>
        init?.signal?.addEventListener("abort", () => reject(new Error("ended"))),
      );
    });
    const failed = await endsByBound(
      () => bound("http://127.0.0.1:9/", post),
      () => made,
    );
    expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
  });

  it("a redirect that ends at a closed port was sent, all the same", async () => {
    const port = await closedPort();
    const redirect: Answer = (response) => response.writeHead(307, { location: `http://127.0.0.1:${port}/` }).end();
    await withServer([redirect], async (server) => {
      expect(await failure(() => bindFetch()(server.url, post))).toMatchObject({ outcome: "unknown" });
      expect(server.received).toHaveLength(1);
    });
  });

  it("DL-08 of a fetch that was bound twice: what an earlier attempt of the inner one sent is not forgotten", async () => {
    const reset: Answer = (response) => response.socket?.resetAndDestroy();
    await withServer([reset], async (server) => {
      let sent = false;
      const closing: typeof fetch = async (_input, init) => {
        // Sent and reset at first, refused from then on.
        const url = sent ? `http://127.0.0.1:${await closedPort()}/` : server.url;
        sent = true;
        return fetch(url, init);
      };
      const twice = bindFetch(bindFetch(closing, { maxAttempts: 2 }));
      const failed = await failure(() => twice("http://a/", { redirect: "error" }));
      expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "unknown" });
      expect(server.received).toHaveLength(1);
    });
  });

  it("over https a refused connection is not sent, unless it is that of a redirect", async () => {
    const url = `https://127.0.0.1:${await closedPort()}/`;
    expect(await failure(() => bindFetch()(url, post))).toMatchObject({ outcome: "not-sent" });
    const { channel } = await import("node:diagnostics_channel");
    const redirected = bindFetch(async (input, init) => {
      // As undici does it: a request of its own for every hop.
      channel("undici:request:create").publish({ request: {} });
      return fetch(input, init);
    });
    expect(await failure(() => redirected(url, post))).toMatchObject({ outcome: "unknown" });
  });

  it("a password in an address is not repeated by the error", async () => {
    const failed = await failure(() => bindFetch()("http://someone:hidden-word@127.0.0.1:1/", post));
    expect(failed).toMatchObject({ code: "REQUEST_FAILED" });
    expect(inspect(failed, { depth: 9 })).not.toContain("hidden-word");
  });

  it("a fetch of another make is proved not-sent by its error's code alone", async () => {
    const code = (value: string) =>
      Object.assign(new TypeError("failed"), { cause: Object.assign(new Error("x"), { code: value }) });
    const throwing = (error: Error) => bindFetch(() => Promise.reject(error));
    const outcome = async (error: Error, redirect: "error" | "follow" = "error") =>
      (await failure(() => throwing(error)("http://a/", { ...post, redirect }))).outcome;
    expect(await outcome(code("ECONNREFUSED"))).toBe("not-sent");
    expect(await outcome(code("ECONNRESET"))).toBe("unknown");
    expect(await outcome(new Error("whatever"))).toBe("unknown");
    // The connection that was refused may be that of a redirect, after a first request that was executed.
    expect(await outcome(code("ECONNREFUSED"), "follow")).toBe("unknown");
    const hanging = bindFetch(() => new Promise(() => undefined));
    const hung = await endsByBound(
      () => hanging("http://a/", post),
      () => true,
    );
    expect(hung).toMatchObject({ outcome: "unknown" });
  });
});

describe("retries", () => {
  it("are off by default, and with a budget repeat what is safe to repeat", async () => {
    await withServer([answer.reset], async (server) => {
      await failure(() => bindFetch()(server.url));
      expect(server.received).toHaveLength(1);
    });
    const bound = bindFetch(fetch, { maxAttempts: 3 });
    await withServer([answer.reset, answer.status(503, "busy"), answer.rows("whole")], async (server) => {
      expect(await within(600_000, async () => (await bound(server.url)).text())).toBe("whole");
      expect(server.received).toHaveLength(3);
    });
    for (const script of [answer.reset, answer.status(503, "busy")]) {
      await withServer([script], async (server) => {
        await bound(server.url, post).catch(() => undefined);
        expect(server.received).toHaveLength(1);
      });
    }
    await withServer([answer.status(503, "busy")], async (server) => {
      const response = await within(600_000, async () => {
        const last = await bound(server.url);
        return [last.status, await last.text()];
      });
      expect(response).toEqual([503, "busy"]);
      expect(server.received).toHaveLength(3);
    });
  });

  it("an option that cannot work is refused", () => {
    expect(() => bindFetch(fetch, { maxAttempts: 0.5 })).toThrow(/CONFIG_INVALID.*maxAttempts/);
  });
});

describe("a response under its bound", () => {
  it("is read once, tells what is wrong with its JSON as it came, and its stream ends by the bound", async () => {
    const bound = bindFetch();
    await withServer([answer.rows("no json")], async (server) => {
      const response = await bound(server.url);
      await expect(response.json()).rejects.toBeInstanceOf(SyntaxError);
      await expect(response.text()).rejects.toBeInstanceOf(TypeError);
      const streamed = await bound(server.url);
      const chunks: Uint8Array[] = [];
      for await (const chunk of streamed.body!) chunks.push(chunk as Uint8Array);
      expect(Buffer.concat(chunks).toString()).toBe("no json");
      await expect(streamed.text()).rejects.toBeInstanceOf(TypeError);
      const [one, copy] = await bound(server.url).then((whole) => [whole, whole.clone()] as const);
      expect(await Promise.all([one.text(), copy.text()])).toEqual(["no json", "no json"]);
      expect(streamed.url).toBe(`${server.url}/`);
    });
  });

  it("looks as one of fetch's own while it is read and after, and a clone knows where it is from", async () => {
    await withServer([answer.rows("whole")], async (server) => {
      const url = `${server.url}/`;
      const [plain, bound] = [await fetch(url), await bindFetch()(url)];
      const looks = ({ body, bodyUsed }: Response): unknown[] => [body?.locked, bodyUsed];
      const texts = [plain.text(), bound.text()];
      expect(looks(bound)).toEqual(looks(plain));
      expect(inspect(bound)).toContain("Response {");
      expect(await Promise.all(texts)).toEqual(["whole", "whole"]);
      expect(looks(bound)).toEqual(looks(plain));
      expect(() => bound.clone()).toThrow(/consumed/);
      const { url: from, redirected, type } = (await bindFetch()(url)).clone();
      expect([from, redirected, type]).toEqual([plain.url, plain.redirected, plain.type]);
    });
  });

  it("breaks with this package's error when its connection does, whatever reads it", async () => {
    await withServer([answer.cutAfter("abc")], async (server) => {
      const readers: ((response: Response) => Promise<unknown>)[] = [
        (response) => response.text(),
        (response) => response.clone().arrayBuffer(),
        async (response) => {
          for await (const chunk of response.body!) expect(chunk).toBeInstanceOf(Uint8Array);
        },
      ];
      for (const reader of readers) {
        const failed = await failure(async () => reader(await bindFetch()(server.url)));
        expect(failed).toMatchObject({ code: "REQUEST_FAILED", outcome: "unknown" });
      }
    });
  });
});
