// Goal: each answer and fault of the server is what its documentation says, as a plain node:http client sees it.
import { connect as connectTls } from "node:tls";
import { gunzipSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import {
  awsContainerCredentials,
  badGzip,
  closeIdle,
  cut,
  cutGzip,
  delayAnswer,
  delivered,
  effect,
  exception,
  exceptionIn200,
  late,
  oauthToken,
  resetOnReuse,
  rows,
  rowsCut,
  rowsUnframed,
  stallBeforeBody,
  stallBeforeHeaders,
  stallMidBody,
  stallMidHeaders,
  startFaultServer,
  timeLimit159,
  timeLimit319,
  timeLimit473,
  times,
  trickle,
  unavailable,
  wrongEncoding,
  type Answer,
  type ExceptionShape,
  type FaultServer,
} from "@holdfast/testkit";
import { serverCertificate, serverKey } from "../support/certificates.js";
import { agent, begin, call, pending, type Outcome } from "../support/client.js";
import { server } from "../support/pair.js";

const answering = (...answers: Answer[]): Promise<FaultServer> => server({ scripts: [{ answers }] });
const answered = async (answer: Answer): Promise<Outcome> => call((await answering(answer)).url, { body: "SELECT 1" });

describe("scripts", () => {
  it("DL-32 the scripted server matches by statement prefix, in order; the last answer repeats", async () => {
    const made = await server({
      scripts: [
        { on: { statement: "SELECT lease" }, answers: [rows("1"), rows("2")] },
        { on: { statement: "insert  into t" }, answers: [rows("insert")] },
        { on: { method: "PUT", path: "/bucket/*" }, answers: [rows("put")] },
        { on: { path: "/token" }, answers: [oauthToken()] },
        { on: (r) => r.headers["x-mine"] === "yes", answers: [(r) => rows(`${r.connection}.${r.numberOnConnection}`)] },
      ],
      otherwise: rows("none"),
    });
    const ask = async (o: Parameters<typeof call>[1], path = "/"): Promise<string> =>
      (await call(made.url + path, o)).body;
    expect([await ask({ body: " select\n lease 5" }), await ask({ body: "SELECT lease" })]).toEqual(["1", "2"]);
    expect(await ask({ body: "SELECT lease FROM t" })).toBe("2");
    expect(await ask({ body: '{"a":1}' }, "/?query=INSERT%20INTO%20t%20FORMAT%20JSONEachRow")).toBe("insert");
    expect(await ask({ body: "x", method: "PUT" }, "/bucket/a/b?x=1")).toBe("put");
    expect(JSON.parse(await ask({ body: "" }, "/token"))).toMatchObject({ token_type: "Bearer" });
    expect(await ask({ headers: { "x-mine": "yes" } })).toBe("7.1");
    expect(await ask({ body: "SELECT other" })).toBe("none");
    expect(made.unmatched.map((r) => r.statement)).toEqual(["SELECT other"]);
  });

  it("DL-32 a request is noted with its times, headers and body", async () => {
    const made = await answering(rows());
    const shared = agent();
    await call(`${made.url}/?a=1`, { body: "x".repeat(200_000), headers: { "x-a": "b" }, agent: shared });
    await call(made.url, { agent: shared });
    const [first, second] = made.received;
    expect(first).toMatchObject({ number: 1, connection: 1, numberOnConnection: 1, method: "POST", target: "/?a=1" });
    expect(first!.headers["x-a"]).toBe("b");
    expect(first!.body.length).toBe(200_000);
    expect(first!.firstByteAt).toBeLessThanOrEqual(first!.lastByteAt);
    expect(first!.lastByteAt).toBeLessThan(second!.firstByteAt);
    expect(second).toMatchObject({ number: 2, connection: 1, numberOnConnection: 2 });
    expect(made.connections).toMatchObject([{ number: 1, requests: 2 }]);
  });

  it("DL-32 what no script is for is answered 501, and a script that throws 500", async () => {
    const bare = await startFaultServer({
      scripts: [{ on: { path: "/x" }, answers: [() => Promise.reject(new Error("oh"))] }],
    });
    expect((await call(bare.url)).status).toBe(501);
    expect(await call(`${bare.url}/x`)).toMatchObject({ status: 500, body: "The script failed: Error: oh\n" });
    await bare[Symbol.asyncDispose]();
  });
});

describe("answers before the request has ended", () => {
  it("DL-32 after so many bytes of the body: the answer comes while the rest is on its way, and the rest is forgotten", async () => {
    const early = { on: { method: "PUT" }, afterBodyBytes: 100_000, answers: [unavailable(), rows("stored")] };
    const made = await server({ scripts: [early] });
    const shared = agent();
    const put = (): Promise<Outcome> => call(made.url, { method: "PUT", body: Buffer.alloc(4_000_000), agent: shared });
    expect([(await put()).status, (await put()).status]).toEqual([503, 200]);
    expect(made.received.map((r) => r.complete)).toEqual([false, false]);
    expect(made.received[0]!.body.length).toBeGreaterThanOrEqual(100_000);
    expect(made.received[0]!.body.length).toBeLessThan(4_000_000);
  });

  it("DL-32 at the head: a client that waits for 100 Continue gets the answer instead", async () => {
    const made = await server({ scripts: [{ afterBodyBytes: 0, answers: [unavailable()] }] });
    const waiting = begin(made.url, { body: "x".repeat(1000), headers: { expect: "100-continue" } });
    expect((await waiting.done).status).toBe(503);
    expect(made.received[0]).toMatchObject({ complete: false, body: Buffer.alloc(0) });
    waiting.leave();
  });
});

describe("answers that do not end", () => {
  const body = "0123456789";
  it.each<[string, Answer, string, number | undefined]>([
    ["before headers", stallBeforeHeaders(rows(body)), "", undefined],
    ["mid-headers", stallMidHeaders(rows(body)), "", undefined],
    ["before the body", stallBeforeBody(rows(body)), "", 200],
    ["mid-body", stallMidBody(rows(body), 4), "0123", 200],
  ])("DL-32 stall %s: so much comes and then nothing", async (_where, answer, part, status) => {
    const made = await answering(effect("did", answer));
    const parts: string[] = [];
    const { request } = await import("node:http");
    const seen: (number | undefined)[] = [];
    const sent = request(made.url, { agent: false });
    sent.on("error", () => undefined);
    sent.on("response", (response) => {
      seen.push(response.statusCode);
      response.on("error", () => undefined);
      response.on("data", (bytes: Buffer) => parts.push(bytes.toString()));
    });
    sent.end();
    await made.until(() => made.effects.length === 1 && (status === undefined || seen.length === 1));
    await made.until(() => parts.join("") === part);
    await made.settled();
    expect([seen, parts.join("")]).toEqual([status === undefined ? [] : [status], part]);
    expect(made.connections[0]!.closedAt).toBeUndefined();
    sent.destroy();
    await made.until(() => made.connections[0]!.closedAt !== undefined);
  });

  it("DL-32 mid-headers sends the status line and a part of the headers", async () => {
    const made = await answering(cut(rows("x"), "mid-headers", "fin"));
    const { connect } = await import("node:net");
    const socket = connect(made.port, "127.0.0.1").end("GET / HTTP/1.1\r\n\r\n");
    let text = "";
    for await (const bytes of socket) text += String(bytes);
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\nContent-Type.*$/);
    expect(text).not.toContain("\r\n\r\n");
  });

  it("DL-32 trickle: one byte after another with the interval between, the headers at once", async () => {
    const made = await answering(trickle(rows("abcdef"), 20));
    const done = await call(made.url);
    expect(done.body).toBe("abcdef");
    expect(done.tookMs).toBeGreaterThan(5 * 19);
    expect((await answered(trickle(rows(), 1, { headers: true }))).status).toBe(200);
  });
});

describe("connections", () => {
  it.each(["rst", "fin"] as const)("DL-32 cut at every place by %s: the client has what came before", async (by) => {
    const text = "0123456789";
    const places = ["before-headers", "mid-headers", "before-body", "mid-body"] as const;
    const seen = await Promise.all(places.map((place) => answered(cut(rows(text), place, by, 3))));
    expect(seen.map((s) => s.status)).toEqual([undefined, undefined, 200, 200]);
    expect(seen.map((s) => s.error !== undefined)).toEqual([true, true, true, true]);
    expect(seen[3]!.body).toBe("012");
  });

  it("DL-32 reset on reuse: the next request on the connection meets a reset and is not executed", async () => {
    const made = await answering(effect("did", resetOnReuse(rows("1"))));
    const shared = agent();
    expect((await call(made.url, { agent: shared })).body).toBe("1");
    expect((await call(made.url, { agent: shared })).error).toBe("ECONNRESET");
    expect(made.received).toHaveLength(1);
    expect(made.effects).toHaveLength(1);
    expect(made.connections[0]!.bytesReceived).toBeGreaterThan(100);
  });

  it.each(["fin", "rst"] as const)("DL-32 %s on the idle connection", async (by) => {
    const made = await answering(closeIdle(rows("1"), 10, by));
    expect((await call(made.url, { agent: agent() })).body).toBe("1");
    await made.until(() => made.connections[0]!.closedAt !== undefined);
  });

  it("DL-32 slow connect: nothing is read before its time; a cut at accept ends the connection", async () => {
    const faults = [{ afterMs: 60 }, { cut: "rst" as const }, { afterMs: Infinity }];
    const made = await server({ accept: (n) => faults[n - 1] });
    expect((await call(made.url)).status).toBe(200);
    expect(made.received[0]!.firstByteAt - made.connections[0]!.openedAt).toBeGreaterThan(58);
    expect((await call(made.url)).error).toBe("ECONNRESET");
    const never = begin(made.url);
    await made.until(() => made.connections.length === 3);
    await made.settled();
    expect(await pending(never.done)).toBe(true);
    expect(made.connections[2]!.bytesReceived).toBe(0);
  });

  it("DL-32 https: answers through TLS, and a slow connect delays the handshake", async () => {
    const made = await server({ tls: { key: serverKey, cert: serverCertificate }, accept: () => ({ afterMs: 40 }) });
    const started = performance.now();
    const socket = connectTls({ port: made.port, host: "127.0.0.1", rejectUnauthorized: false });
    await new Promise((resolve) => socket.once("secureConnect", resolve));
    expect(performance.now() - started).toBeGreaterThan(38);
    socket.write("GET /x HTTP/1.1\r\n\r\n");
    await made.until(() => made.received.length === 1);
    expect(made.received[0]!.target).toBe("/x");
    socket.destroy();
  });
});

describe("effects", () => {
  it("DL-32 late: the server works until the client has left, then does it and notes that nobody was there", async () => {
    const made = await answering(late(effect("insert", rows())));
    const given = begin(made.url, { body: "INSERT" });
    await made.until(() => made.received.length === 1);
    await made.settled();
    expect(made.effects).toEqual([]);
    given.leave();
    await made.until(() => made.effects.length === 1);
    expect(made.effects[0]).toMatchObject({ name: "insert", clientPresent: false });
    expect(made.effects[0]!.atMs).toBeGreaterThanOrEqual(made.connections[0]!.clientLeftAt!);
  });

  it("DL-32 late by time: done after so long, the client there or not", async () => {
    const made = await answering(late(effect("insert", rows("ok")), 40));
    expect((await call(made.url)).body).toBe("ok");
    expect(made.effects[0]!.atMs - made.received[0]!.lastByteAt).toBeGreaterThan(38);
    expect(made.effects[0]!.clientPresent).toBe(true);
  });

  it.each([
    ["159", timeLimit159(), 408],
    ["473", timeLimit473(), 500],
    ["319", timeLimit319(), 500],
  ] as const)("DL-32 time limit %s, with its effect and without", async (code, reply, status) => {
    const made = await answering(effect("rows", reply), reply);
    const [first, second] = [await call(made.url), await call(made.url)];
    expect(first).toEqual({ ...second, tookMs: first.tookMs });
    expect(first.status).toBe(status);
    expect(first.headers!["x-clickhouse-exception-code"]).toBe(code);
    expect(first.body).toContain(`Code: ${code}. DB::Exception`);
    expect(made.effects.map((e) => e.request.number)).toEqual([1]);
  });

  it("DL-32 storms: 503 with and without Retry-After, then an answer", async () => {
    const made = await answering(...times(2, unavailable(7)), unavailable(), delayAnswer(5, rows("ok")));
    const seen = [];
    for (let i = 0; i < 4; i++) seen.push(await call(made.url));
    expect(seen.map((s) => [s.status, s.headers!["retry-after"]])).toEqual([
      [503, "7"],
      [503, "7"],
      [503, undefined],
      [200, undefined],
    ]);
  });
});

describe("bodies", () => {
  const error = { code: 395, name: "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO" };

  it.each<[ExceptionShape, RegExp, boolean]>([
    ["text-after-rows", /^\{"a":"1"\}\nCode: 395\./, false],
    ["json-row", /^\{"a":"1"\}\n\{"exception":"Code: 395\..*"\}\n$/, false],
    [
      "tagged-block",
      /^\{"a":"1"\}\n\r\n__exception__\r\n\w{16}\r\nCode: 395[^]*\d+ \w{16}\r\n__exception__\r\n$/,
      true,
    ],
    ["no-rows-then-text", /^Code: 395\./, false],
    ["in-headers", /^Code: 395\./, false],
  ])("DL-32 exception in a 200: %s", async (shape, text, torn) => {
    const seen = await answered(exceptionIn200(shape, error));
    expect(seen.status).toBe(200);
    expect(seen.body).toMatch(text);
    expect(seen.error !== undefined).toBe(torn);
    expect(seen.headers!["x-clickhouse-exception-code"]).toBe(shape === "in-headers" ? "395" : undefined);
    if (shape === "tagged-block") {
      const tag = String(seen.headers!["x-clickhouse-exception-tag"]);
      const [, length = ""] = new RegExp(`(\\d+) ${tag}\\r\\n__exception__\\r\\n$`).exec(seen.body) ?? [];
      // The block says how long the text is, line end included.
      expect(Number(length)).toBe(seen.body.split(`${tag}\r\n`)[1]!.indexOf(length + " "));
      expect(seen.body.split(tag)).toHaveLength(3);
    }
  });

  it("DL-32 rows cut at the border of a row, mid-line, and without framing", async () => {
    expect(await answered(rowsCut("1\n2\n"))).toMatchObject({ status: 200, body: "1\n2\n", error: "ECONNRESET" });
    expect(await answered(rowsCut("1\n2", "fin"))).toMatchObject({ body: "1\n2", error: "ECONNRESET" });
    const unframed = await answered(rowsUnframed("1\n2"));
    expect(unframed).toMatchObject({ status: 200, body: "1\n2" });
    expect(unframed.error).toBeUndefined();
    expect(unframed.headers!["content-length"]).toBeUndefined();
  });

  it("DL-32 error codes carry the header", async () => {
    const seen = await answered(exception({ code: 286, name: "UNSATISFIED_QUORUM_FOR_PREVIOUS_WRITE" }));
    expect([seen.status, seen.headers!["x-clickhouse-exception-code"]]).toEqual([500, "286"]);
  });

  it("DL-32 bad gzip, cut gzip, wrong content-encoding", async () => {
    const bad = await answered(badGzip(rows("text")));
    expect([bad.headers!["content-encoding"], bad.body]).toEqual(["gzip", "text"]);
    const half = await answered(cutGzip(rows("x".repeat(1000))));
    expect(half.headers!["content-encoding"]).toBe("gzip");
    expect(() => gunzipSync(Buffer.from(half.body, "latin1"))).toThrow(/unexpected end/);
    const wrong = await answered(wrongEncoding(rows("text")));
    expect(wrong.headers!["content-encoding"]).toBe("zstd");
    expect(gunzipSync(Buffer.from(wrong.body, "latin1")).toString()).toBe("text");
  });

  it("DL-32 credentials: answers of token endpoints, slow ones too", async () => {
    expect(JSON.parse((await answered(awsContainerCredentials())).body)).toMatchObject({ AccessKeyId: "AKIAMADEUP" });
    const slow = await answered(delayAnswer(40, oauthToken({ token: "t" })));
    expect(JSON.parse(slow.body)).toMatchObject({ access_token: "t" });
    expect(slow.tookMs).toBeGreaterThan(38);
  });

  it("DL-32 a delivery adds to the one that was there", () => {
    const reply = delivered(delivered(rows(), { delayMs: 5 }), { resetOnReuse: true });
    expect(reply.delivery).toEqual({ delayMs: 5, resetOnReuse: true });
  });
});
