// Goal: settings, sessions, errors, cancellation, admission and headers are as ClickHouse has them. Method: the unmodified client, and raw requests
// where the client hides what is looked at.
import { request as httpRequest } from "node:http";
import { until } from "@holdfast-private/tests-machine";
import { describe, expect, it } from "vitest";
import { clickhouseError, useServer } from "./support.js";

const s = useServer({ maxConcurrentQueries: 4 });

const running = async (marker: string): Promise<number> => {
  const [row] = await s.rows(
    `SELECT count() FROM system.processes WHERE query LIKE '%${marker}%' AND query NOT LIKE '%system.processes%'`,
  );
  return (row as [number])[0];
};

describe("settings", () => {
  const read = async (settings: Record<string, string | number> = {}): Promise<unknown> => {
    const rs = await s
      .plain()
      .query({ query: "SELECT getSetting('max_threads') AS t", format: "JSONEachRow", clickhouse_settings: settings });
    return rs.json();
  };

  it("hold for the request that brings them", async () => {
    const [before] = (await read()) as [{ t: number }];
    expect(await read({ max_threads: 3 })).toEqual([{ t: 3 }]);
    expect(await read()).toEqual([before]);
  });

  it("are refused when ClickHouse does not know them, with its code and status", async () => {
    const error = await clickhouseError(read({ no_such_setting: 1 }));
    expect(error).toMatchObject({ code: "115", type: "UNKNOWN_SETTING" });
    expect((await s.http("/?query=SELECT+1&no_such_setting=1")).status).toBe(404);
    expect((await s.http(`/?query=SELECT+1&${encodeURIComponent("a=1, b")}=1`)).status).toBe(404);
  });

  it("take fractions of a second as a time limit, which the engine keeps", async () => {
    const error = await clickhouseError(
      s.plain().query({
        query: "SELECT count() FROM system.numbers",
        clickhouse_settings: { max_execution_time: 0.25 },
      }),
    );
    expect(error).toMatchObject({ code: "159", type: "TIMEOUT_EXCEEDED" });
  });

  it("are refused when the engine would accept and ignore them", async () => {
    await s.plain().command({ query: "CREATE TABLE quorum (a UInt8) ENGINE = MergeTree ORDER BY a" });
    const asSetting = s.plain().insert({
      table: "quorum",
      values: [{ a: 1 }],
      format: "JSONEachRow",
      clickhouse_settings: { insert_quorum: "2" },
    });
    expect(await clickhouseError(asSetting)).toMatchObject({ code: "48" });
    const auto = s.plain().insert({
      table: "quorum",
      values: [{ a: 1 }],
      format: "JSONEachRow",
      clickhouse_settings: { insert_quorum: "auto" },
    });
    expect((await clickhouseError(auto)).message).toContain("one node");
    const written = s.plain().command({ query: "INSERT INTO quorum SETTINGS insert_quorum = 3 VALUES (1)" });
    expect(await clickhouseError(written)).toMatchObject({ code: "48" });
    await s.plain().insert({
      table: "quorum",
      values: [{ a: 2 }],
      format: "JSONEachRow",
      clickhouse_settings: { insert_quorum: "0", select_sequential_consistency: "1" },
    });
    expect(await s.rows("SELECT a FROM quorum")).toEqual([[2]]);
  });
});

describe("max_query_size", () => {
  const post = async (path: string, body: string): Promise<{ status: number; code: string | null; text: string }> => {
    const r = await s.http(path, { method: "POST", body });
    return { status: r.status, code: r.headers.get("x-clickhouse-exception-code"), text: await r.text() };
  };

  // Red when the SET that carries parameters runs under the limit for query texts.
  it("does not count parameters, which may be megabytes, and stays what it was", { tags: ["slow"] }, async () => {
    const list = Array.from({ length: 64 * 1024 }, (_, i) => String(i).padStart(32, "it's \\ "));
    const read = async (o: { session_id?: string; max_query_size?: string }): Promise<unknown> => {
      const client = s.client(o.session_id === undefined ? {} : { session_id: o.session_id });
      const rs = await client.query({
        query:
          "SELECT length(p) AS n, p[-1] AS last, getSetting('max_query_size') AS limit FROM (SELECT {p:Array(String)} AS p)",
        query_params: { p: list },
        use_multipart_params: true,
        format: "JSONEachRow",
        clickhouse_settings: o.max_query_size === undefined ? {} : { max_query_size: o.max_query_size },
      });
      return rs.json();
    };
    const all = { n: list.length, last: list.at(-1) };
    expect(await read({})).toEqual([{ ...all, limit: 262_144 }]);
    expect(await read({ max_query_size: "300000" })).toEqual([{ ...all, limit: 300_000 }]);
    expect(await read({ session_id: "large-param" })).toEqual([{ ...all, limit: 262_144 }]);
    const after = await post("/?session_id=large-param", "SELECT getSetting('max_query_size')");
    expect(after.text).toBe("262144\n");
  });

  it("bounds the text of a query, also beside a large parameter", async () => {
    const form = new FormData();
    form.append("param_p", "x".repeat(1 << 20));
    form.append("query", "SELECT length({p:String}) + 1 + 1 + 1");
    const r = await s.http("/?max_query_size=36", { method: "POST", body: form });
    expect([r.status, r.headers.get("x-clickhouse-exception-code")]).toEqual([400, "62"]);
    expect(await r.text()).toContain("Max query size exceeded");
    for (const path of ["/?max_query_size=20", "/?max_query_size=20&session_id=bounded"]) {
      expect(await post(path, "SELECT 1 + 1 + 1 + 1 + 1")).toMatchObject({ status: 400, code: "62" });
    }
    expect(await post("/", `SELECT '${"x".repeat(262_136)}'`)).toMatchObject({ status: 400, code: "62" });
    form.set("query", `SELECT '${"x".repeat(262_144)}'`);
    expect((await s.http("/", { method: "POST", body: form })).status).toBe(400);
  });

  // Red when what this server adds to a text (where its result goes, where its data lies) counts: the result was empty without an error.
  it("lets a text through that just fits, with its result", async () => {
    expect(await post("/?max_query_size=8", "SELECT 1")).toMatchObject({ status: 200, text: "1\n" });
    const fits = `SELECT '${"x".repeat(262_144 - 9)}'`;
    expect((await post("/", fits)).text).toBe(`${"x".repeat(262_144 - 9)}\n`);
    expect((await post("/?max_query_size=300000", `SELECT '${"x".repeat(299_991)}'`)).text).toHaveLength(299_992);
    await s.plain().command({ query: "CREATE TABLE fitted (a UInt8) ENGINE = MergeTree ORDER BY a" });
    const insert = "INSERT INTO fitted FORMAT CSV\n";
    expect(await post(`/?max_query_size=${String(insert.length)}`, `${insert}${"1\n".repeat(500)}`)).toMatchObject({
      status: 200,
    });
    expect(await s.rows("SELECT count() FROM fitted")).toEqual([[500]]);
  });

  it("of one request is given back in a session, however small", async () => {
    expect((await post("/?session_id=small&max_query_size=8", "SELECT 1")).text).toBe("1\n");
    expect((await post("/?session_id=small", "SELECT getSetting('max_query_size')")).text).toBe("262144\n");
  });
});

describe("sessions", () => {
  it("keep temporary tables, settings and the database, apart from other sessions", async () => {
    const a = s.client({ session_id: "a" });
    const b = s.client({ session_id: "b" });
    await a.command({ query: "CREATE TEMPORARY TABLE kept (x UInt8)" });
    await a.command({ query: "INSERT INTO kept VALUES (5)" });
    await a.command({ query: "SET max_threads = 2" });
    await a.command({ query: "USE system" });
    const rs = await a.query({
      query: "SELECT x, getSetting('max_threads') AS t, currentDatabase() AS d FROM kept",
      format: "JSONEachRow",
    });
    expect(await rs.json()).toEqual([{ x: 5, t: 2, d: "system" }]);
    expect(await clickhouseError(b.query({ query: "SELECT * FROM kept" }))).toMatchObject({ code: "60" });
  });

  it("give a request's settings back after it", async () => {
    const c = s.client({ session_id: "c" });
    await c.command({ query: "SET max_block_size = 1234" });
    const query = "SELECT getSetting('max_block_size') AS n, currentDatabase() AS d";
    const own = await c.query({ query, format: "JSONEachRow", clickhouse_settings: { max_block_size: "99" } });
    expect(await own.json()).toEqual([{ n: 99, d: "default" }]);
    await clickhouseError(c.query({ query: "SELECT nothing", clickhouse_settings: { max_block_size: "98" } }));
    const later = await c.query({ query, format: "JSONEachRow" });
    expect(await later.json()).toEqual([{ n: 1234, d: "default" }]);
    const elsewhere = await s.http("/?session_id=c&database=system&query=SELECT+currentDatabase()");
    expect(await elsewhere.text()).toBe("system\n");
    expect(await (await c.query({ query, format: "JSONEachRow" })).json()).toEqual([{ n: 1234, d: "default" }]);
  });

  it("serve one request at a time", async () => {
    const d = s.client({ session_id: "d" });
    const endless = clickhouseError(
      d.command({ query: "SELECT count() FROM system.numbers WHERE NOT ignore('in_session_d')", query_id: "in-d" }),
    );
    await until("a query in session d", async () => (await running("in_session_d")) === 1);
    const error = await clickhouseError(s.client({ session_id: "d" }).query({ query: "SELECT 1" }));
    expect(error).toMatchObject({ code: "373", type: "SESSION_IS_LOCKED" });
    await s.plain().command({ query: "KILL QUERY WHERE query_id = 'in-d' ASYNC" });
    expect(await endless).toMatchObject({ code: "394" });
    await (await d.query({ query: "SELECT 1", format: "JSONEachRow" })).text();
  });

  it("and ids of queries are free once an answer has ended, also a streamed one", async () => {
    const f = s.client({ session_id: "f", compression: { response: true, request: false } });
    for (let i = 0; i < 30; i++) {
      const rows = i % 3 === 0 ? 100_000 : 1;
      const rs = await f.query({
        query: `SELECT number FROM numbers(${String(rows)})`,
        format: "CSV",
        query_id: "same",
      });
      expect((await rs.text()).split("\n")).toHaveLength(rows + 1);
    }
  });

  it("must exist when session_check says so, and end after their timeout", async () => {
    const missing = await s.http("/?query=SELECT+1&session_id=e&session_check=1");
    expect(missing.headers.get("x-clickhouse-exception-code")).toBe("372");
    await s.http("/?session_id=e&session_timeout=0", { method: "POST", body: "CREATE TEMPORARY TABLE gone (x UInt8)" });
    await until(
      "the end of session e",
      async () => (await s.http("/?query=SELECT+1&session_id=e&session_check=1&session_timeout=0")).status === 500,
    );
    const bad = await s.http("/?query=SELECT+1&session_id=e&session_timeout=4000");
    expect(bad.headers.get("x-clickhouse-exception-code")).toBe("36");
  });

  it("are needed for SET and USE", async () => {
    expect((await clickhouseError(s.plain().command({ query: "SET max_threads = 1" }))).message).toContain(
      "session_id",
    );
    expect(await clickhouseError(s.plain().command({ query: "USE system" }))).toMatchObject({ code: "48" });
  });

  it("refuse readonly, which would last", async () => {
    const r = await s.http("/?session_id=r&readonly=1&query=SELECT+1");
    expect(r.headers.get("x-clickhouse-exception-code")).toBe("48");
  });
});

describe("errors", () => {
  it.each([
    ["SELEC 1", 62, 400],
    ["SELECT nothing", 47, 404],
    ["SELECT * FROM nowhere", 60, 404],
    ["SELECT * FROM nodb.nowhere", 81, 404],
    ["SELECT no_function(1)", 46, 404],
    ["SELECT 1 FORMAT NoFormat", 73, 404],
    ["SELECT throwIf(1)", 395, 500],
    ["SELECT toUInt8('x')", 6, 400],
    ["INSERT INTO nowhere VALUES (1)", 60, 404],
    ["", 62, 400],
    ["-- nothing", 62, 400],
  ])("%s is code %i with status %i", async (query, code, status) => {
    const r = await s.http("/", { method: "POST", body: query });
    const text = await r.text();
    expect([r.status, r.headers.get("x-clickhouse-exception-code")]).toEqual([status, String(code)]);
    expect(text).toMatch(
      new RegExp(
        `^Code: ${String(code)}\\. DB::Exception: (?!Code:).*\\([A-Z_0-9]+\\) \\(version [0-9.]+ \\(official build\\)\\)\n$`,
        "s",
      ),
    );
  });

  it("speak of the caller's text only", async () => {
    const r = await s.http("/", { method: "POST", body: "SELECT 1 FROM system.one WHERE" });
    const text = await r.text();
    expect(text).toContain("Syntax error");
    expect(text).not.toContain("OUTFILE");
  });

  it("in the middle of a result are found by the client, and by raw readers through the tag", async () => {
    const query = "SELECT throwIf(number = 900000) AS a, number FROM numbers(1000000)";
    for (const format of ["JSONEachRow", "JSONCompactEachRow", "CSV", "TabSeparated"] as const) {
      for (const client of [s.plain(), s.client({ compression: { response: true, request: false } })]) {
        const rs = await client.query({ query, format });
        const error = await clickhouseError(
          (async () => {
            for await (const rows of rs.stream()) rows.at(-1);
          })(),
        );
        expect(error).toMatchObject({ code: "395", type: "FUNCTION_THROW_IF_VALUE_IS_NON_ZERO" });
      }
    }
    const raw = await s.http("/", { method: "POST", body: `${query} FORMAT TabSeparated` });
    const tag = raw.headers.get("x-clickhouse-exception-tag") ?? "";
    expect(tag).toMatch(/^[0-9a-z]{16}$/);
    const text = await raw.text();
    const tail = text.slice(text.indexOf("\r\n__exception__\r\n"));
    const parts = tail.split("\r\n");
    expect(parts.slice(0, 3)).toEqual(["", "__exception__", tag]);
    expect(parts.slice(-2)).toEqual(["__exception__", ""]);
    const [message = "", size] = [
      parts[3]?.slice(0, parts[3].lastIndexOf("\n") + 1),
      parts[3]?.slice(parts[3].lastIndexOf("\n") + 1),
    ];
    expect(size).toBe(`${String(Buffer.byteLength(message))} ${tag}`);
  });

  it("have a status when wait_end_of_query is asked for, and when the result is small", async () => {
    const large = await s.http("/?wait_end_of_query=1", {
      method: "POST",
      body: "SELECT throwIf(number = 900000), number FROM numbers(1000000)",
    });
    expect([large.status, large.headers.get("x-clickhouse-exception-code")]).toEqual([500, "395"]);
    await large.text();
    const small = await s.http("/", {
      method: "POST",
      body: "SELECT throwIf(number = 2) AS t FROM numbers(5) SETTINGS max_block_size = 1 FORMAT JSON",
    });
    expect(small.status).toBe(500);
    await small.text();
  });

  it("answer what is not supported", async () => {
    for (const [path, init] of [
      ["/?query=SELECT+1&compress=1", {}],
      ["/?query=SELECT+1&role=admin", {}],
      ["/", { method: "POST", body: "BACKUP TABLE t TO Memory('x')" }],
      ["/", { method: "POST", body: "INSERT INTO t SELECT * FROM input('a UInt8') FORMAT CSV" }],
      ["/", { method: "POST", body: "KILL QUERY WHERE 1 SYNC" }],
      ["/", { method: "POST", body: "SELECT 1 SETTINGS log_comment = 'mine'" }],
    ] as const) {
      const r = await s.http(path, init);
      expect([path, r.status, r.headers.get("x-clickhouse-exception-code")]).toEqual([path, 501, "48"]);
      expect(await r.text()).toMatch(/embedded|not supported/);
    }
    expect((await s.http("/play")).status).toBe(404);
  });
});

describe("methods", () => {
  it("other than POST only read", async () => {
    await s.plain().command({ query: "CREATE TABLE IF NOT EXISTS ro (a UInt8) ENGINE = MergeTree ORDER BY a" });
    for (const query of [
      "INSERT INTO ro VALUES (1)",
      "INSERT INTO ro SELECT 1",
      "DROP TABLE ro",
      "CREATE TABLE ro2 (a UInt8) ENGINE = Memory",
      "WITH x AS (SELECT 1) INSERT INTO ro SELECT * FROM x",
    ]) {
      for (const session of ["", "&session_id=ro"]) {
        const r = await s.http(`/?query=${encodeURIComponent(query)}${session}`);
        expect([query, r.headers.get("x-clickhouse-exception-code")]).toEqual([query, "164"]);
      }
    }
    expect(await (await s.http("/?query=SELECT+1&max_threads=1")).text()).toBe("1\n");
    const head = await s.http("/?query=SELECT+number+FROM+numbers(10000000)", { method: "HEAD" });
    expect(head.status).toBe(200);
    expect(await s.rows("SELECT count() FROM ro")).toEqual([[0]]);
  });

  it("answer the health checks", async () => {
    for (const path of ["/", "/ping", "/replicas_status"]) expect(await (await s.http(path)).text()).toBe("Ok.\n");
  });
});

describe("headers", () => {
  it("say what ClickHouse's say", async () => {
    const r = await s.http("/?query_id=my-own-id", { method: "POST", body: "SELECT 1 AS a FORMAT JSONEachRow" });
    await r.text();
    expect(Object.fromEntries(r.headers)).toMatchObject({
      "content-type": "application/x-ndjson; charset=UTF-8",
      "x-clickhouse-query-id": "my-own-id",
      "x-clickhouse-format": "JSONEachRow",
      "x-clickhouse-timezone": expect.stringMatching(/./) as string,
      "x-clickhouse-server-display-name": expect.stringMatching(/./) as string,
      "x-clickhouse-exception-tag": expect.stringMatching(/^[0-9a-z]{16}$/) as string,
    });
    const summary = JSON.parse(r.headers.get("x-clickhouse-summary") ?? "") as Record<string, string>;
    expect(summary).toMatchObject({ read_rows: "1", written_rows: "0" });
    expect(Object.values(summary).every((v) => typeof v === "string")).toBe(true);
  });

  it("let a request choose database and format", async () => {
    const r = await s.http("/", {
      method: "POST",
      body: "SELECT currentDatabase() AS d",
      headers: { "x-clickhouse-database": "system", "x-clickhouse-format": "JSONEachRow" },
    });
    expect(await r.text()).toBe('{"d":"system"}\n');
    const unknown = await s.http("/?query=SELECT+1&database=nowhere");
    expect(unknown.headers.get("x-clickhouse-exception-code")).toBe("81");
  });
});

describe("recent queries", () => {
  it("are kept with id, settings and outcome, since there is no query_log", async () => {
    await (
      await s.plain().query({
        query: "SELECT 1 + {p:UInt8}",
        query_id: "kept-1",
        query_params: { p: 2 },
        clickhouse_settings: { max_threads: 2, max_execution_time: 7 },
      })
    ).text();
    await clickhouseError(s.plain().query({ query: "SELECT nothing", query_id: "kept-2" }));
    const log = await s.server().recentQueries();
    expect(log.find((q) => q.queryId === "kept-1")).toMatchObject({
      query: expect.stringContaining("SELECT 1 + {p:UInt8}") as string,
      settings: { max_threads: "2", max_execution_time: "7" },
      paramNames: ["p"],
      database: "default",
      outcome: "finished",
      errorCode: 0,
    });
    expect(log.find((q) => q.queryId === "kept-2")).toMatchObject({ outcome: "failed", errorCode: 47 });
    expect(log.length).toBeLessThanOrEqual(1000);
  });
});

describe("cancellation", () => {
  const endedInEngine = async (marker: string): Promise<void> => {
    await until(`the end of ${marker} in the engine`, async () => (await running(marker)) === 0);
    await until(
      `${marker} in the log of recent queries`,
      async () => (await s.server().recentQueries()).find((q) => q.queryId === marker)?.outcome === "canceled",
    );
  };

  it.each([
    ["SELECT", "SELECT count() FROM system.numbers WHERE NOT ignore('aborted-1')"],
    [
      "INSERT SELECT",
      "INSERT INTO FUNCTION null('a UInt64') SELECT number FROM system.numbers WHERE NOT ignore('aborted-2')",
    ],
  ])("by the client ends %s in the engine", async (_, query) => {
    const marker = /aborted-\d/.exec(query)?.[0] ?? "";
    const abort = new AbortController();
    const ended = s
      .plain()
      .command({ query, abort_signal: abort.signal, query_id: marker })
      .catch((error: unknown) => error);
    await until(`${marker} in the engine`, async () => (await running(marker)) === 1);
    abort.abort();
    expect(await ended).toBeInstanceOf(Error);
    await endedInEngine(marker);
  });

  it("of a result that nobody reads ends its query in the engine", async () => {
    const rs = await s
      .plain()
      .query({ query: "SELECT number, 'aborted-3' FROM system.numbers", format: "CSV", query_id: "aborted-3" });
    expect(await running("aborted-3")).toBe(1);
    rs.close();
    await endedInEngine("aborted-3");
  });

  it("while the body is sent runs nothing", async () => {
    await s.plain().command({ query: "CREATE TABLE half (a UInt8) ENGINE = MergeTree ORDER BY a" });
    const url = new URL(`${s.server().url}/?query=INSERT+INTO+half+FORMAT+CSV&query_id=half-sent`);
    const request = httpRequest(url, { method: "POST", headers: { "transfer-encoding": "chunked" } });
    request.on("error", () => undefined);
    request.write("1\n2\n");
    await until("a half-sent query", async () =>
      (await s.server().recentQueries()).some((q) => q.queryId === "half-sent"),
    );
    request.destroy();
    await until("its end", async () =>
      (await s.server().recentQueries()).some((q) => q.queryId === "half-sent" && q.outcome === "canceled"),
    );
    expect(await s.rows("SELECT count() FROM half")).toEqual([[0]]);
  });

  it("can be done with KILL QUERY, by query_id or by log_comment", async () => {
    const endless = (clickhouse_settings = {}) =>
      clickhouseError(
        s.plain().command({ query: "SELECT count() FROM system.numbers", query_id: "victim", clickhouse_settings }),
      );
    const ofVictim = "FROM system.processes WHERE Settings['log_comment'] LIKE '%victim'";
    for (const [where, query_params] of [
      ["query_id = 'victim'", {}],
      ["query_id IN ({id:String})", { id: "victim" }],
      ["Settings['log_comment'] LIKE 'mine %'", {}],
    ] as const) {
      const slow = endless(where.includes("mine") ? { log_comment: "mine" } : {});
      await until("the victim", async () => (await s.rows(`SELECT 1 ${ofVictim}`)).length === 1);
      await s.plain().command({ query: `KILL QUERY WHERE ${where} ASYNC`, query_params });
      expect(await slow).toMatchObject({ code: "394", type: "QUERY_WAS_CANCELLED" });
    }
  });

  it("leaves the id free, which meanwhile is refused to a second query", async () => {
    const abort = new AbortController();
    const first = s
      .plain()
      .command({ query: "SELECT count() FROM system.numbers", query_id: "taken", abort_signal: abort.signal });
    const ended = first.catch((error: unknown) => error);
    await until("a query that runs", async () =>
      (await s.server().recentQueries()).some((q) => q.queryId === "taken" && q.waitedMs !== null),
    );
    const second = await clickhouseError(s.plain().query({ query: "SELECT 1", query_id: "taken" }));
    expect(second).toMatchObject({ code: "216", type: "QUERY_WITH_SAME_ID_IS_ALREADY_RUNNING" });
    abort.abort();
    await ended;
    await until("its id is free", async () => (await s.http("/?query=SELECT+1&query_id=taken")).status === 200);
  });
});

describe("admission", () => {
  it("counts the wait for a slot against max_execution_time, and serves pings meanwhile", async () => {
    const abort = new AbortController();
    const hogs = Array.from({ length: 4 }, (_, i) =>
      s
        .client()
        .command({
          query: `SELECT count() FROM system.numbers WHERE NOT ignore('hog-${String(i)}')`,
          query_id: `hog-${String(i)}`,
          abort_signal: abort.signal,
        })
        .catch(() => undefined),
    );
    await until(
      "four queries that run",
      async () =>
        (await s.server().recentQueries()).filter((q) => q.queryId.startsWith("hog-") && q.waitedMs !== null).length ===
        4,
    );
    const error = await clickhouseError(
      s.plain().query({ query: "SELECT 1", query_id: "waiter", clickhouse_settings: { max_execution_time: 0.2 } }),
    );
    expect(error).toMatchObject({ code: "159", type: "TIMEOUT_EXCEEDED" });
    expect(error.message).toContain("did not run");
    expect((await s.plain().ping()).success).toBe(true);
    const patient = s.rows("SELECT 'served later'");
    abort.abort();
    expect(await patient).toEqual([["served later"]]);
    await Promise.all(hogs);
  });
});
