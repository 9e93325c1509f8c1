// Goal: a statement cannot bring a second one, read or write files, run programs, reach other hosts or end the server. Method: try each way, and
// look at what is left behind.
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { clickhouseError, useServer } from "./support.js";

const s = useServer();
let outside = "";
beforeAll(async () => {
  outside = await mkdtemp(join(tmpdir(), "holdfast-gate-"));
  await writeFile(join(outside, "secret.txt"), "hidden-word\n");
  await s.plain().command({ query: "CREATE TABLE kept (a String) ENGINE = MergeTree ORDER BY a" });
});
afterAll(() => rm(outside, { recursive: true, force: true }));

const send = async (query: string, params = ""): Promise<{ code: number; text: string }> => {
  const r = await s.http(`/?${params}`, { method: "POST", body: query });
  return { code: Number(r.headers.get("x-clickhouse-exception-code") ?? 0), text: await r.text() };
};

describe("a second statement", () => {
  it.each([
    "SELECT 1; DROP TABLE kept",
    "SELECT 1;\n\nDROP TABLE kept",
    "INSERT INTO kept VALUES ('a'); DROP TABLE kept",
    "INSERT INTO kept SELECT 'a'; DROP TABLE kept",
    "INSERT INTO kept; DROP TABLE kept; INSERT INTO kept FORMAT CSV",
    "SELECT '\\\\'; DROP TABLE kept --'",
    "SELECT 1 /* */; DROP TABLE kept /* */",
    "SELECT $a$;$a$; DROP TABLE kept",
    "DROP TABLE nothing_here; DROP TABLE kept",
  ])("is refused: %s", async (query) => {
    expect(await send(query)).toMatchObject({ code: 62 });
    expect(await s.rows("EXISTS TABLE kept")).toEqual([[1]]);
    expect(await s.rows("SELECT count() FROM kept")).toEqual([[0]]);
  });

  it("is data when it stands in data", async () => {
    await s.plain().command({ query: "CREATE TABLE data (a String) ENGINE = MergeTree ORDER BY a" });
    await s.plain().insert({ table: "data", values: [{ a: "1\n\nDROP TABLE kept" }], format: "JSONEachRow" });
    await send("\n\nDROP TABLE kept\n", "query=INSERT+INTO+data+FORMAT+LineAsString");
    await send("INSERT INTO data FORMAT LineAsString\n\n\nDROP TABLE kept");
    expect(await s.rows("EXISTS TABLE kept")).toEqual([[1]]);
    expect(await s.rows("SELECT count() FROM data WHERE a LIKE '%DROP TABLE kept'")).toEqual([[3]]);
    expect(await s.rows("SELECT ';', 'a; b' -- ; c")).toEqual([[";", "a; b"]]);
  });

  it("does not hide in parameters, settings or names", async () => {
    const rs = await s
      .plain()
      .query({ query: "SELECT {p:String} AS p", query_params: { p: "'; DROP TABLE kept; --" }, format: "JSONEachRow" });
    expect(await rs.json()).toEqual([{ p: "'; DROP TABLE kept; --" }]);
    const quote = encodeURIComponent("'; DROP TABLE kept; --");
    await send("SELECT 1", `log_comment=${quote}`);
    await send("SELECT 1", `database=${encodeURIComponent("`; DROP TABLE kept; --")}`);
    await send("SELECT 1", `param_${quote}=1`);
    await send("SELECT 1", `max_threads=${quote}`);
    expect(await s.rows("EXISTS TABLE kept")).toEqual([[1]]);
  });
});

describe("files", () => {
  const reading = (path: string): string[] => [
    `SELECT * FROM file('${path}', LineAsString)`,
    `SELECT file('${path}')`,
    `SELECT \`file\`('${path}')`,
    `SELECT "FILE" /* x */ ('${path}')`,
    `DESCRIBE TABLE file('${path}')`,
    `CREATE TABLE f1 AS file('${path}', LineAsString)`,
    `CREATE TABLE f2 (a String) ENGINE = File(LineAsString, '${path}')`,
    `CREATE VIEW f3 AS SELECT file('${path}')`,
    `CREATE DATABASE f4 ENGINE = Filesystem('${path}')`,
    `CREATE DATABASE f5 ENGINE = SQLite('${path}')`,
    `CREATE TABLE f6 (a UInt8) ENGINE = FileLog('${path}', 'CSV')`,
    `CREATE TABLE f7 (k UInt64, v String) ENGINE = EmbeddedRocksDB(0, '${path}') PRIMARY KEY k`,
    `CREATE DICTIONARY f8 (k UInt64, v String) PRIMARY KEY k SOURCE(FILE(PATH '${path}' FORMAT 'TSV')) LAYOUT(FLAT()) LIFETIME(0)`,
    `INSERT INTO kept FROM INFILE '${path}' FORMAT LineAsString`,
    `INSERT INTO kept (a) FROM /* x */ INFILE '${path}' COMPRESSION 'none' FORMAT LineAsString`,
    `ATTACH TABLE f9 FROM '${path}' (a UInt8) ENGINE = MergeTree ORDER BY a`,
    `SELECT 1 FORMAT Template SETTINGS format_template_resultset = '${path}'`,
    `SELECT 1 AS a FORMAT Protobuf SETTINGS format_schema = '${path}:M'`,
    `SELECT * FROM filesystem('${path}')`,
    `CREATE TABLE f10 (a UInt8) ENGINE = MergeTree ORDER BY a SETTINGS disk = disk(type = local, path = '${path}/')`,
  ];
  it("are not read through SQL", async () => {
    for (const query of reading(join(outside, "secret.txt"))) {
      const { code, text } = await send(query);
      expect([query, code]).toEqual([query, 497]);
      expect(text).not.toContain("hidden-word");
    }
    expect(
      (
        await s.http(
          `/?query=SELECT+1+FORMAT+Template&format_template_resultset=${encodeURIComponent(join(outside, "secret.txt"))}`,
        )
      ).status,
    ).toBe(403);
    expect(await s.rows("SELECT count() FROM kept")).toEqual([[0]]);
  });

  it("are not written through SQL", async () => {
    const target = join(outside, "written.txt");
    for (const query of [
      `SELECT 1 INTO OUTFILE '${target}'`,
      `SELECT 1 into\n-- x\noutfile '${target}' TRUNCATE FORMAT CSV`,
      `SELECT 1 INTO OUTFILE '${target}' AND STDOUT`,
      `SHOW DATABASES INTO OUTFILE '${target}'`,
      `INSERT INTO FUNCTION file('${target}', LineAsString) SELECT 'x'`,
      `INSERT INTO TABLE FUNCTION file('${target}', LineAsString) VALUES ('x')`,
      `SELECT 1 INTO OUTFILE '${target}' FORMAT CSV SETTINGS max_threads = 1 'never closed`,
    ]) {
      const { code } = await send(query);
      expect([query, code]).toEqual([query, 497]);
    }
    expect(existsSync(target)).toBe(false);
  });
});

// Each of these read or wrote the file before the gate closed its place: file() cannot be revoked in the engine, which also runs SQL out of
// strings and calls functions that are only named.
describe("SQL that a string holds, or a function that is only named", () => {
  it("reads and writes no file", async () => {
    const path = join(outside, "secret.txt");
    const target = join(outside, "hidden.txt");
    const inString = `file(\\'${path}\\')`;
    for (const query of [
      `INSERT INTO kept VALUES (file('${path}'))`,
      `INSERT INTO kept FORMAT values (assumeNotNull(file('${path}')))`,
      `INSERT INTO kept VALUES ((SELECT throwIf(1, 'x') SETTINGS additional_result_filter = 'x'))`,
      `SELECT * FROM format(Values, 'a String', '(${inString})')`,
      `SELECT * FROM format('V\\x61lues', 'a String', '(${inString})')`,
      `SELECT * FROM format(JSONEachRow, 'x UInt8, y String DEFAULT ${inString}', '{"x":1}')`,
      `SELECT * FROM format(JSONEachRow, concat('x UInt8, y String DEF', 'AULT ${inString}'), '{"x":1}')`,
      `CREATE TABLE h1 AS null('a UInt8, b String DEFAULT ${inString}')`,
      `CREATE TABLE h2 AS null('a UInt8, b String DEF' || 'AULT ${inString}')`,
      `CREATE TABLE h3 AS values('a UInt8, b String DEFAULT ${inString}', (1, 'x'))`,
      `SELECT 1 SETTINGS additional_result_filter = 'throwIf(1, ${inString}) = 0'`,
      `SELECT 1 SETTINGS additional_table_filters = {'system.one': 'throwIf(1, ${inString}) = 0'}`,
      `SELECT 1 SETTINGS dialect = 'kusto'`,
      `SELECT * FROM eval('SELECT ${inString}') SETTINGS allow_experimental_eval_table_function = 1`,
      `CREATE DICTIONARY h4 (a UInt64, b String) PRIMARY KEY a SOURCE(CLICKHOUSE(QUERY 'SELECT 1 AS a, ${inString} AS b')) LAYOUT(FLAT()) LIFETIME(0)`,
      `CREATE DICTIONARY h5 (a UInt64, b String) PRIMARY KEY a SOURCE(CLICKHOUSE(TABLE 'kept' WHERE 'throwIf(1, ${inString}) = 0')) LAYOUT(FLAT()) LIFETIME(0)`,
      `SELECT * APPLY(file) FROM (SELECT '${path}' AS a)`,
      `SELECT * APPLY \`file\` FROM (SELECT '${path}' AS a)`,
      `SELECT arrayMap(file, ['${path}'])`,
      `SELECT 1 AS a FORMAT Protobuf SETTINGS output_format_schema = '${target}', format_protobuf_use_autogenerated_schema = 1`,
      `SELECT * FROM format(CSV, 'a UInt8', 'x') SETTINGS input_format_record_errors_file_path = '${target}', input_format_allow_errors_num = 5, errors_output_format = 'CSV'`,
      `CREATE DATABASE h6 ENGINE = DataLakeCatalog('http://127.0.0.1:1/') SETTINGS catalog_type = 'rest', warehouse = 'x'`,
    ]) {
      const { code, text } = await send(query);
      expect([query, code]).toEqual([query, 497]);
      expect(text).not.toContain("hidden-word");
    }
    expect(
      (await send("SELECT 1", `additional_result_filter=${encodeURIComponent(`length(file('${path}')) = 0`)}`)).code,
    ).toBe(497);
    expect(existsSync(target)).toBe(false);
    expect(await s.rows("SELECT count() FROM kept")).toEqual([[0]]);
  });

  it("is not run in values that are too many to look at", async () => {
    await send("CREATE TABLE many (a String) ENGINE = MergeTree ORDER BY a");
    const literals = Array.from({ length: 40_000 }, (_, i) => `('row ${String(i)}')`).join(",");
    expect((await send(`INSERT INTO many VALUES ${literals}`)).code).toBe(0);
    expect(await s.rows("SELECT count() FROM many")).toEqual([[40_000]]);
    const { code, text } = await send(
      `INSERT INTO many VALUES ${literals}, (assumeNotNull(file(assumeNotNull('${join(outside, "secret.txt")}'))))`,
    );
    expect(code).toBeGreaterThan(0);
    expect(text).not.toContain("hidden-word");
    expect(await s.rows("SELECT count() FROM many WHERE a LIKE '%hidden%'")).toEqual([[0]]);
    const on = await send("INSERT INTO many SETTINGS input_format_values_interpret_expressions = 1 VALUES ('x')");
    expect(on.code).toBe(48);
  });

  it("leaves honest uses alone", async () => {
    await send("CREATE TABLE honest (a UInt8, b String) ENGINE = MergeTree ORDER BY a");
    expect((await send("INSERT INTO honest VALUES (1 + 1, lower('FILE(x)')), (3, concat('a', 'b'))")).code).toBe(0);
    expect(await s.rows("SELECT a, b FROM honest ORDER BY a")).toEqual([
      [2, "file(x)"],
      [3, "ab"],
    ]);
    expect(await s.rows("SELECT format('{}-{}', 'a', 'b')")).toEqual([["a-b"]]);
    expect(await s.rows(`SELECT * FROM format(JSONEachRow, 'x UInt8', '{"x":1}')`)).toEqual([[1]]);
    expect(await s.rows("SELECT * FROM values('a UInt8, b String', (1, 'x'))")).toEqual([[1, "x"]]);
    expect((await send("INSERT INTO FUNCTION null('a UInt8') VALUES (1)")).code).toBe(0);
  });
});

describe("programs and hosts", () => {
  it("are not reached", async () => {
    for (const query of [
      "SELECT * FROM executable('x.sh', TSV, 'a String')",
      "CREATE TABLE p1 (a String) ENGINE = Executable('x.sh', TSV)",
      "CREATE DICTIONARY p2 (k UInt64, v String) PRIMARY KEY k SOURCE(EXECUTABLE(COMMAND 'id' FORMAT 'TSV')) LAYOUT(FLAT()) LIFETIME(0)",
      "CREATE DICTIONARY p3 (k UInt64, v String) PRIMARY KEY k SOURCE(HTTP(URL 'http://127.0.0.1:1/' FORMAT 'TSV')) LAYOUT(FLAT()) LIFETIME(0)",
      "CREATE DICTIONARY p4 (k UInt64, v String) PRIMARY KEY k SOURCE(CLICKHOUSE(HOST 'other' TABLE 't')) LAYOUT(FLAT()) LIFETIME(0)",
      "SELECT * FROM url('http://127.0.0.1:1/', LineAsString)",
      "CREATE TABLE p5 (a String) ENGINE = URL('http://127.0.0.1:1/', LineAsString)",
      "SELECT * FROM remote('127.0.0.1:1', system.one)",
      "SELECT * FROM s3('http://127.0.0.1:1/bucket/x', CSV)",
      "SELECT * FROM mysql('127.0.0.1:1', 'a', 'b', 'c', 'd')",
      "CREATE TABLE p6 (a UInt8) ENGINE = Kafka('h:1', 't', 'g', 'CSV')",
      "CREATE DATABASE p7 ENGINE = MySQL('127.0.0.1:1', 'a', 'b', 'c')",
    ]) {
      expect([query, (await send(query)).code]).toEqual([query, 497]);
    }
  });

  it("does not stand in the way of tables with such names, or of dictionaries over tables", async () => {
    await s.plain().command({ query: "CREATE TABLE file (url String, s3 String) ENGINE = MergeTree ORDER BY url" });
    await s
      .plain()
      .insert({ table: "file", values: [{ url: "u", s3: "v" }], columns: ["url", "s3"], format: "JSONEachRow" });
    expect(await s.rows("SELECT file.url, s3 FROM file")).toEqual([["u", "v"]]);
    await s.plain().command({ query: "CREATE TABLE kv (k UInt64, v String) ENGINE = MergeTree ORDER BY k" });
    await s.plain().command({ query: "INSERT INTO kv VALUES (1, 'one')" });
    await s.plain().command({
      query:
        "CREATE DICTIONARY d (k UInt64, v String) PRIMARY KEY k SOURCE(CLICKHOUSE(TABLE 'kv')) LAYOUT(FLAT()) LIFETIME(0)",
    });
    expect(await s.rows("SELECT dictGet('d', 'v', toUInt64(1))")).toEqual([["one"]]);
  });
});

describe("the server", () => {
  it("cannot be ended or crippled by a statement", async () => {
    for (const query of [
      "SYSTEM SHUTDOWN",
      "system /* x */ shutdown",
      "SYSTEM KILL",
      "SYSTEM SUSPEND FOR 1 SECOND",
      "SYSTEM STOP LISTEN HTTP",
      "DROP DATABASE default",
      "DROP DATABASE IF EXISTS `default`",
      "DETACH DATABASE system",
      "RENAME DATABASE default TO other",
    ]) {
      expect([query, (await send(query)).code]).toEqual([query, 497]);
    }
    const byName = await clickhouseError(
      s.plain().command({ query: "DROP DATABASE {d:Identifier}", query_params: { d: "default" } }),
    );
    expect(byName.code).toBe("497");
    // A session keeps parameters that this request does not show.
    await send("SET param_d = 'default'", "session_id=gate");
    expect((await send("DROP DATABASE {d:Identifier}", "session_id=gate")).code).toBe(456);
    expect((await s.plain().ping()).success).toBe(true);
    await s.plain().command({ query: "SYSTEM STOP MERGES" });
    await s.plain().command({ query: "SYSTEM START MERGES" });
    await s.plain().command({ query: "SYSTEM FLUSH LOGS" });
    await s.plain().command({ query: "CREATE DATABASE mine" });
    await s.plain().command({ query: "DROP DATABASE mine" });
  });

  it("is not open to web pages", async () => {
    const page = await s.http("/?query=SELECT+1", { headers: { origin: "https://example.org" } });
    expect(page.headers.get("x-clickhouse-exception-code")).toBe("516");
    const own = await s.http("/?query=SELECT+1", { headers: { origin: "http://localhost:3000" } });
    expect(own.status).toBe(200);
  });
});
