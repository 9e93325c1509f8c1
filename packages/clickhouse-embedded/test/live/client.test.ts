// Goal: all that @clickhouse/client does works against the embedded server, unmodified. Method: one server for the file, a table per test.
import { Readable } from "node:stream";
import { describe, expect, it } from "vitest";
import type { DataFormat } from "@clickhouse/client";
import { clickhouseError, useServer } from "./support.js";

const s = useServer();

describe("reading", () => {
  it("answers both kinds of ping", async () => {
    expect(await s.plain().ping()).toEqual({ success: true });
    expect(await s.plain().ping({ select: true })).toMatchObject({ success: true });
  });

  const query = "SELECT number AS n, concat('v', toString(number)) AS s FROM numbers(2)";
  const meta = [
    { name: "n", type: "UInt64" },
    { name: "s", type: "String" },
  ];
  it.each([
    [
      "JSON",
      {
        meta,
        data: [
          { n: 0, s: "v0" },
          { n: 1, s: "v1" },
        ],
        rows: 2,
      },
    ],
    [
      "JSONStrings",
      {
        meta,
        data: [
          { n: "0", s: "v0" },
          { n: "1", s: "v1" },
        ],
        rows: 2,
      },
    ],
    [
      "JSONCompact",
      {
        meta,
        data: [
          [0, "v0"],
          [1, "v1"],
        ],
        rows: 2,
      },
    ],
    [
      "JSONCompactStrings",
      {
        meta,
        data: [
          ["0", "v0"],
          ["1", "v1"],
        ],
        rows: 2,
      },
    ],
    ["JSONColumnsWithMetadata", { meta, data: { n: [0, 1], s: ["v0", "v1"] }, rows: 2 }],
    ["JSONObjectEachRow", { row_1: { n: 0, s: "v0" }, row_2: { n: 1, s: "v1" } }],
    [
      "JSONEachRow",
      [
        { n: 0, s: "v0" },
        { n: 1, s: "v1" },
      ],
    ],
    [
      "JSONStringsEachRow",
      [
        { n: "0", s: "v0" },
        { n: "1", s: "v1" },
      ],
    ],
    [
      "JSONCompactEachRow",
      [
        [0, "v0"],
        [1, "v1"],
      ],
    ],
    [
      "JSONCompactStringsEachRow",
      [
        ["0", "v0"],
        ["1", "v1"],
      ],
    ],
    [
      "JSONCompactEachRowWithNames",
      [
        ["n", "s"],
        [0, "v0"],
        [1, "v1"],
      ],
    ],
    [
      "JSONCompactEachRowWithNamesAndTypes",
      [
        ["n", "s"],
        ["UInt64", "String"],
        [0, "v0"],
        [1, "v1"],
      ],
    ],
    [
      "JSONCompactStringsEachRowWithNames",
      [
        ["n", "s"],
        ["0", "v0"],
        ["1", "v1"],
      ],
    ],
    [
      "JSONCompactStringsEachRowWithNamesAndTypes",
      [
        ["n", "s"],
        ["UInt64", "String"],
        ["0", "v0"],
        ["1", "v1"],
      ],
    ],
  ] satisfies [DataFormat, object][])("reads %s", async (format, expected) => {
    const rs = await s.plain().query({ query, format });
    const json: unknown = await rs.json();
    if (Array.isArray(expected)) expect(json).toEqual(expected);
    else expect(json).toMatchObject(expected);
  });

  it("reads rows with progress", async () => {
    const rs = await s.plain().query({ query, format: "JSONEachRowWithProgress" });
    const rows = (await rs.json()).filter((line) => "row" in (line as object));
    expect(rows).toEqual(
      [{ row: { n: "0", s: "v0" } }, { row: { n: "1", s: "v1" } }].map((r) => ({
        row: { ...r.row, n: Number(r.row.n) },
      })),
    );
  });

  it("reads text formats, TabSeparated when nothing is said", async () => {
    const csv = await s.plain().query({ query, format: "CSVWithNames" });
    expect(await csv.text()).toBe('"n","s"\n0,"v0"\n1,"v1"\n');
    const raw = await s.http("/", { method: "POST", body: query });
    expect(await raw.text()).toBe("0\tv0\n1\tv1\n");
  });

  it("streams a large result in order, as one document in formats that have a frame", async () => {
    const rs = await s.plain().query({ query: "SELECT number AS n FROM numbers(500000)", format: "JSONEachRow" });
    let next = 0;
    let misplaced = 0;
    for await (const rows of rs.stream<{ n: number }>()) {
      for (const row of rows) if (row.json().n !== next++) misplaced++;
    }
    expect([next, misplaced]).toEqual([500_000, 0]);
    const framed = await s.plain().query({ query: "SELECT number AS n FROM numbers(500000)", format: "JSON" });
    expect((await framed.json()).data).toHaveLength(500_000);
  });

  it("reads an empty result, and statements that are not SELECT", async () => {
    const empty = await s.plain().query({ query: "SELECT 1 AS a WHERE 0", format: "JSONEachRow" });
    expect(await empty.json()).toEqual([]);
    const show = await s.plain().query({ query: "SHOW DATABASES LIKE 'def%'", format: "JSONEachRow" });
    expect(await show.json()).toEqual([{ name: "default" }]);
    const exists = await s.plain().query({ query: "EXISTS TABLE system.one", format: "JSONEachRow" });
    expect(await exists.json()).toEqual([{ result: 1 }]);
    const explain = await s.plain().query({ query: "EXPLAIN SELECT 1", format: "JSONEachRow" });
    expect(await explain.json()).not.toEqual([]);
  });

  it("runs ten queries at once", async () => {
    const answers = await Promise.all(
      Array.from({ length: 10 }, (_, i) => s.rows(`SELECT ${String(i)}, count() FROM numbers(1000000)`)),
    );
    expect(answers).toEqual(Array.from({ length: 10 }, (_, i) => [[i, 1_000_000]]));
  });
});

describe("writing", () => {
  it("inserts arrays of objects and of arrays, JSON objects, chosen columns", async () => {
    await s
      .plain()
      .command({ query: "CREATE TABLE w1 (a UInt64, b String DEFAULT 'none') ENGINE = MergeTree ORDER BY a" });
    const insert = await s.plain().insert({
      table: "w1",
      values: [
        { a: 1, b: "x" },
        { a: 2, b: "y" },
      ],
      format: "JSONEachRow",
    });
    expect(insert.executed).toBe(true);
    expect(insert.summary).toMatchObject({ written_rows: "2" });
    await s.plain().insert({ table: "w1", values: [[3, "z"]], format: "JSONCompactEachRow" });
    await s.plain().insert({
      table: "w1",
      values: {
        meta: [
          { name: "a", type: "UInt64" },
          { name: "b", type: "String" },
        ],
        data: [{ a: 4, b: "q" }],
      },
      format: "JSON",
    });
    await s.plain().insert({ table: "w1", values: [{ a: 5 }], columns: ["a"], format: "JSONEachRow" });
    await s.plain().insert({ table: "w1", values: [{ a: 6 }], columns: { except: ["b"] }, format: "JSONEachRow" });
    expect(await s.rows("SELECT a, b FROM w1 ORDER BY a")).toEqual([
      [1, "x"],
      [2, "y"],
      [3, "z"],
      [4, "q"],
      [5, "none"],
      [6, "none"],
    ]);
  });

  it("inserts nothing without complaint", async () => {
    await s.plain().command({ query: "CREATE TABLE w2 (a UInt64) ENGINE = MergeTree ORDER BY a" });
    await s.plain().insert({ table: "w2", values: [], format: "JSONEachRow" });
    await s.plain().insert({ table: "w2", values: Readable.from([]), format: "JSONEachRow" });
    const raw = await s.http("/?query=INSERT+INTO+w2+FORMAT+CSV", { method: "POST" });
    expect([raw.status, await raw.text()]).toEqual([200, ""]);
    expect(await s.rows("SELECT count() FROM w2")).toEqual([[0]]);
  });

  it("inserts streams of objects and of CSV", async () => {
    await s.plain().command({ query: "CREATE TABLE w3 (a UInt64, b String) ENGINE = MergeTree ORDER BY a" });
    await s.plain().insert({
      table: "w3",
      values: Readable.from([
        { a: 1, b: "o" },
        { a: 2, b: "p" },
      ]),
      format: "JSONEachRow",
    });
    await s.plain().insert({
      table: "w3",
      values: Readable.from(['3,"line one\n\nline three"\n', "4,plain\n"], { objectMode: false }),
      format: "CSV",
    });
    expect(await s.rows("SELECT * FROM w3 ORDER BY a")).toEqual([
      [1, "o"],
      [2, "p"],
      [3, "line one\n\nline three"],
      [4, "plain"],
    ]);
  });

  it("inserts RowBinary, two line ends in a row included", async () => {
    await s.plain().command({ query: "CREATE TABLE w4 (a UInt16) ENGINE = MergeTree ORDER BY a" });
    const values = Readable.from([Buffer.from([0x0a, 0x0a, 0x01, 0x00])], { objectMode: false });
    const { stream } = await s.plain().exec({ query: "INSERT INTO w4 FORMAT RowBinary", values });
    stream.destroy();
    expect(await s.rows("SELECT * FROM w4 ORDER BY a")).toEqual([[1], [0x0a0a]]);
  });

  it("inserts data written in the statement, and from SELECT, and says how many rows", async () => {
    await s.plain().command({ query: "CREATE TABLE w5 (a UInt64, b String) ENGINE = MergeTree ORDER BY a" });
    const values = await s.plain().command({
      query: "INSERT INTO w5 (a, b) VALUES ({a:UInt64}, 'x;y'), (2,\n\n'(z)');",
      query_params: { a: 1 },
    });
    expect(values.summary).toMatchObject({ written_rows: "2" });
    const select = await s.plain().command({ query: "INSERT INTO w5 SELECT number + 10, 's' FROM numbers(5)" });
    expect(select.summary).toMatchObject({ written_rows: "5" });
    const fenced = await s.plain().command({ query: "INSERT INTO w5 SELECT 99, 'f' WHERE 0" });
    expect(fenced.summary).toMatchObject({ written_rows: "0" });
    await s.plain().command({
      query: 'INSERT INTO w5 FORMAT JSONEachRow {"a":3,"b":"in the text"}\n\n{"a":4,"b":"after an empty line"}',
    });
    const rows = await s.rows("SELECT * FROM w5 WHERE a < 10 ORDER BY a");
    expect(rows).toEqual([
      [1, "x;y"],
      [2, "(z)"],
      [3, "in the text"],
      [4, "after an empty line"],
    ]);
  });

  it("tells where bad data is, and not where its file was", async () => {
    await s.plain().command({ query: "CREATE TABLE w6 (a UInt64) ENGINE = MergeTree ORDER BY a" });
    const error = await clickhouseError(
      s
        .plain()
        .insert({ table: "w6", values: Readable.from(["1\nnot a number\n"], { objectMode: false }), format: "CSV" }),
    );
    expect(error).toMatchObject({ code: "117", type: "INCORRECT_DATA" });
    expect(error.message).toContain("at row");
    expect(error.message).not.toContain(s.server().dataDir);
  });

  it("takes a body of 64 MiB", async () => {
    await s.plain().command({ query: "CREATE TABLE w7 (b String) ENGINE = MergeTree ORDER BY tuple()" });
    const line = Buffer.from(`${"x".repeat(1_048_575)}\n`);
    await s.plain().insert({
      table: "w7",
      values: Readable.from(
        Array.from({ length: 64 }, () => line),
        { objectMode: false },
      ),
      format: "CSV",
    });
    expect(await s.rows("SELECT count(), sum(length(b)) FROM w7")).toEqual([[64, 64 * 1_048_575]]);
  });

  it("runs command and exec", async () => {
    const command = await s.plain().command({ query: "CREATE TABLE w8 (a UInt64) ENGINE = Memory" });
    expect(command.query_id).toMatch(/^[0-9a-f-]{36}$/);
    const { stream } = await s.plain().exec({ query: "SELECT 1, 2 FORMAT TabSeparated" });
    const parts: Buffer[] = [];
    for await (const part of stream) parts.push(part as Buffer);
    expect(Buffer.concat(parts).toString()).toBe("1\t2\n");
  });
});

describe("parameters", () => {
  const query =
    "SELECT {s:String} AS s, {n:UInt64} AS n, {a:Array(String)} AS a, {m:Map(String, UInt8)} AS m, {x:Nullable(String)} AS x, {b:Bool} AS b, {t:DateTime64(3)} AS t";
  const query_params = {
    s: "tab\t quote' back\\slash\n\nDROP TABLE x; émoji 🙂",
    n: "18446744073709551615",
    a: ["it's", "a\\b"],
    m: { k: 1 },
    x: null,
    b: true,
    t: new Date("2024-01-02T03:04:05.678Z"),
  };
  const clickhouse_settings = { output_format_json_quote_64bit_integers: 1, session_timezone: "UTC" } as const;
  const expected = {
    s: query_params.s,
    n: query_params.n,
    a: query_params.a,
    m: { k: 1 },
    x: null,
    b: true,
    t: "2024-01-02 03:04:05.678",
  };

  it("reach the query whatever they hold", async () => {
    const rs = await s.plain().query({ query, query_params, clickhouse_settings, format: "JSONEachRow" });
    expect(await rs.json()).toEqual([expected]);
  });

  it("may come as a form", async () => {
    const rs = await s
      .plain()
      .query({ query, query_params, clickhouse_settings, format: "JSONEachRow", use_multipart_params: true });
    expect(await rs.json()).toEqual([expected]);
  });

  it("name tables and columns", async () => {
    const rs = await s.plain().query({
      query: "SELECT {c:Identifier} FROM {d:Identifier}.{t:Identifier}",
      query_params: { c: "dummy", d: "system", t: "one" },
      format: "JSONEachRow",
    });
    expect(await rs.json()).toEqual([{ dummy: 0 }]);
  });

  it("are missed when they are missing, also after a request that had them", async () => {
    const error = await clickhouseError(s.plain().query({ query: "SELECT {n:UInt64}" }));
    expect(error).toMatchObject({ code: "456", type: "UNKNOWN_QUERY_PARAMETER" });
  });
});

describe("compression", () => {
  it("works both ways", async () => {
    const client = s.client({ compression: { request: true, response: true } });
    await client.command({ query: "CREATE TABLE z1 (a UInt64, b String) ENGINE = MergeTree ORDER BY a" });
    await client.insert({ table: "z1", values: [{ a: 1, b: "x".repeat(10_000) }], format: "JSONEachRow" });
    const rs = await client.query({ query: "SELECT a, length(b) AS n FROM z1", format: "JSONEachRow" });
    expect(await rs.json()).toEqual([{ a: 1, n: 10_000 }]);
    expect(rs.response_headers["content-encoding"]).toBe("gzip");
    const error = await clickhouseError(client.query({ query: "SELECT nothing" }));
    expect(error.code).toBe("47");
  });

  it("takes br and deflate, and refuses what is not what it says", async () => {
    const zlib = await import("node:zlib");
    for (const [encoding, body] of [
      ["br", zlib.brotliCompressSync("SELECT 7")],
      ["deflate", zlib.deflateSync("SELECT 7")],
      ["gzip", zlib.gzipSync("SELECT 7")],
    ] as const) {
      const r = await s.http("/?enable_http_compression=1", {
        method: "POST",
        body,
        headers: { "content-encoding": encoding, "accept-encoding": encoding },
      });
      expect([r.headers.get("content-encoding"), await r.text()]).toEqual([encoding, "7\n"]);
    }
    const bad = await s.http("/", { method: "POST", body: "SELECT 7", headers: { "content-encoding": "gzip" } });
    expect([bad.headers.get("x-clickhouse-exception-code"), bad.status]).toEqual(["354", 500]);
    const unknown = await s.http("/", { method: "POST", body: "SELECT 7", headers: { "content-encoding": "snappy" } });
    expect([unknown.headers.get("x-clickhouse-exception-code"), unknown.status]).toEqual(["48", 501]);
  });
});
