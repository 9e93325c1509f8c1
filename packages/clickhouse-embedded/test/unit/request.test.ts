// Goal: what a request says is read as ClickHouse reads it. Method: headers, fields and bodies by hand.
import { PassThrough } from "node:stream";
import { describe, expect, it } from "vitest";
import { authenticate } from "../../src/auth.js";
import { contentType } from "../../src/formats.js";
import { checkLocal } from "../../src/local-only.js";
import { formBoundary, readForm } from "../../src/multipart.js";
import { RequestBody } from "../../src/request-body.js";
import { engineLimit } from "../../src/query-size.js";
import { readRequest } from "../../src/request.js";
import { identifier, literal, setStatement } from "../../src/settings-sql.js";
import { readStatement, textOf, type Statement } from "../../src/statement.js";

const bodyOf = (...chunks: (string | Buffer)[]): RequestBody => {
  const stream = new PassThrough();
  for (const chunk of chunks) stream.write(chunk);
  stream.end();
  return new RequestBody(stream as AsyncIterable<Buffer>);
};
const collect = async (data: AsyncIterable<Buffer>): Promise<string> => {
  const parts: Buffer[] = [];
  for await (const part of data) parts.push(part);
  return Buffer.concat(parts).toString("latin1");
};
const context = { inSession: false, readonly: false, params: new Map<string, string>() };

describe("fields", () => {
  const read = (query: string, headers = {}) => readRequest(new URLSearchParams(query), headers, () => "new-id");

  it("are the server's own, parameters, or settings", () => {
    const r = read(
      "query=SELECT+1&database=d&wait_end_of_query=1&session_id=s&session_timeout=5&param_a=%5CN&max_threads=2&query_id=q",
    );
    expect(r).toMatchObject({
      query: "SELECT 1",
      queryId: "q",
      database: "d",
      waitEnd: true,
      session: { id: "s", timeoutSeconds: 5, mustExist: false },
    });
    expect([...r.settings]).toEqual([["max_threads", "2"]]);
    expect([...r.params]).toEqual([["a", "\\N"]]);
  });

  it("have defaults, and headers stand in for some", () => {
    expect(read("")).toMatchObject({
      query: "",
      queryId: "new-id",
      database: null,
      defaultFormat: "TabSeparated",
      session: null,
      waitEnd: false,
    });
    expect(read("", { "x-clickhouse-database": "h", "x-clickhouse-format": "CSV" })).toMatchObject({
      database: "h",
      defaultFormat: "CSV",
    });
    expect(read("default_format=TSV", { "x-clickhouse-format": "CSV" }).defaultFormat).toBe("TSV");
  });

  it.each(["compress=1", "decompress=1", "role=admin"])("that are not supported are refused: %s", (query) => {
    expect(() => read(query)).toThrow("not supported");
  });

  it.each(["session_id=a&session_timeout=x", "session_id=a&session_timeout=3601", "buffer_size=-1"])(
    "out of range are refused: %s",
    (query) => {
      expect(() => read(query)).toThrow("whole number");
    },
  );
});

describe("credentials", () => {
  const basic = (text: string) => ({ authorization: `Basic ${Buffer.from(text).toString("base64")}` });
  const none = new URLSearchParams();

  it("come as Basic, as headers or as fields", () => {
    expect(() => authenticate(basic("default:a:b"), none, "a:b")).not.toThrow();
    expect(() => authenticate({ "x-clickhouse-user": "default", "x-clickhouse-key": "p" }, none, "p")).not.toThrow();
    expect(() => authenticate({}, new URLSearchParams("user=default&password=p"), "p")).not.toThrow();
    expect(() => authenticate({}, none, "")).not.toThrow();
    expect(() => authenticate(basic("default:"), none, "")).not.toThrow();
  });

  it.each([
    [{}, "p"],
    [basic("default:q"), "p"],
    [basic("other:p"), "p"],
    [basic("nocolon"), "p"],
    [{ "x-clickhouse-key": "q" }, "p"],
    [basic("default:p"), ""],
    [{ authorization: "Bearer token" }, "p"],
  ])("are refused when they are wrong: %j", (headers, password) => {
    expect(() => authenticate(headers, none, password)).toThrow("Code: 516.");
  });
});

it("requests of web pages and to other names are refused", () => {
  for (const headers of [
    {},
    { host: "127.0.0.1:8123" },
    { host: "localhost" },
    { host: "[::1]:1" },
    { host: "localhost:1", origin: "http://localhost:3000" },
  ]) {
    expect(() => checkLocal(headers)).not.toThrow();
  }
  for (const headers of [
    { host: "evil.example" },
    { host: "127.0.0.1.evil.example" },
    { host: "localhost", origin: "https://evil.example" },
    { host: "localhost", origin: "null" },
  ]) {
    expect(() => checkLocal(headers)).toThrow("Code: 516.");
  }
});

describe("a form", () => {
  const form = (...parts: string[]): string => `${parts.map((part) => `--B\r\n${part}\r\n`).join("")}--B--\r\n`;

  it("has fields, with line ends and empty lines in them", async () => {
    const text = form(
      'Content-Disposition: form-data; name="query"\r\n\r\nSELECT\r\n\r\n--Bx 1',
      'content-disposition: form-data; name="param_a"\r\nContent-Type: text/plain\r\n\r\n',
    );
    expect(await readForm(bodyOf(text), "B")).toEqual([
      ["query", "SELECT\r\n\r\n--Bx 1"],
      ["param_a", ""],
    ]);
  });

  it("with a file, or without names, is refused", async () => {
    await expect(
      readForm(bodyOf(form('Content-Disposition: form-data; name="t"; filename="x"\r\n\r\n1')), "B"),
    ).rejects.toThrow("Code: 48.");
    await expect(readForm(bodyOf(form("X: y\r\n\r\n1")), "B")).rejects.toThrow("no name");
  });

  it("is told by its Content-Type", () => {
    expect(formBoundary('multipart/form-data; boundary="a b"')).toBe("a b");
    expect(formBoundary("multipart/form-data; boundary=x; charset=utf-8")).toBe("x");
    expect(formBoundary("application/x-www-form-urlencoded")).toBeNull();
    expect(formBoundary(undefined)).toBeNull();
    expect(() => formBoundary("multipart/form-data")).toThrow("boundary");
  });
});

describe("a statement", () => {
  it("is the query field, then the body", async () => {
    expect(await readStatement("SELECT 1,", bodyOf(" 2"), 0, context)).toMatchObject({
      kind: "select",
      sql: "SELECT 1,\n 2",
    });
    expect(await readStatement("", bodyOf("SHOW TABLES FORMAT CSV"), 0, context)).toMatchObject({
      kind: "other",
      format: "CSV",
    });
    expect(await readStatement("INSERT INTO t SELECT 1", bodyOf(), 0, context)).toMatchObject({
      kind: "insert-select",
    });
  });

  const dataOf = async (query: string, ...body: (string | Buffer)[]): Promise<[string, string]> => {
    const statement: Statement = await readStatement(query, bodyOf(...body), 0, context);
    if (statement.kind !== "insert") throw new Error("not an insert");
    return [textOf(statement), await collect(statement.data)];
  };

  it("with data is split wherever the data starts", async () => {
    expect(await dataOf("INSERT INTO t FORMAT CSV", "1\n", "2\n")).toEqual(["INSERT INTO t FORMAT CSV", "1\n2\n"]);
    expect(await dataOf("INSERT INTO t FORMAT CSV 0\n", "1\n")).toEqual(["INSERT INTO t FORMAT CSV", "0\n1\n"]);
    expect(await dataOf("", "INSERT INTO t FORM", "AT CSV\n1\n", "2\n")).toEqual([
      "INSERT INTO t FORMAT CSV",
      "1\n2\n",
    ]);
    expect(await dataOf("INSERT INTO t", "FORMAT CSV\n1\n")).toEqual(["INSERT INTO t FORMAT CSV", "1\n"]);
    expect(await dataOf("INSERT INTO t VALUES", "(1), (2)")).toEqual(["INSERT INTO t FORMAT Values", "(1), (2)"]);
  });

  it("with binary data keeps every byte", async () => {
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    const [, data] = await dataOf("", "INSERT INTO `tablé` FORMAT RowBinary\n", bytes);
    expect(Buffer.from(data, "latin1")).toEqual(bytes);
  });

  it("with data beyond the size of a query is fine, without data is refused", async () => {
    const line = "1".repeat(200_000);
    expect((await dataOf("", `INSERT INTO t FORMAT CSV\n`, line, line, line))[1]).toHaveLength(600_000);
    await expect(readStatement("", bodyOf(`SELECT '${line}${line}'`), 0, context)).rejects.toThrow("max_query_size");
    expect(await readStatement("", bodyOf(`SELECT '${line}${line}'`), 1_000_000, context)).toMatchObject({
      kind: "select",
    });
  });

  it("that is not text is refused", async () => {
    await expect(readStatement("", bodyOf(Buffer.from([0x53, 0xff, 0xfe])), 0, context)).rejects.toThrow("UTF-8");
    await expect(readStatement("", bodyOf(" -- nothing"), 0, context)).rejects.toThrow("Empty query");
    await expect(readStatement("INSERT INTO t VALUES (1); DROP TABLE t", bodyOf(), 0, context)).rejects.toThrow(
      "Multi-statements",
    );
    await expect(readStatement("INSERT INTO t VALUES", bodyOf("(1);", " DROP TABLE t"), 0, context)).rejects.toThrow(
      "Multi-statements",
    );
  });
});

describe("settings and parameters", () => {
  it("are one SET, values as strings", () => {
    const set = setStatement(
      new Map([
        ["max_threads", "2"],
        ["log_comment", "it's \\ \0"],
      ]),
      new Map([["p", "a\\tb"]]),
    );
    expect(set).toBe("SET max_threads='2', log_comment='it\\'s \\\\ \\0', param_p='a\\\\tb'");
    expect(setStatement(new Map(), new Map())).toBeNull();
  });

  it("must have plain names and honest values", () => {
    expect(() => setStatement(new Map([["a=1, b", "1"]]), new Map())).toThrow("Code: 115.");
    expect(() => setStatement(new Map(), new Map([["a b", "1"]]))).toThrow("Code: 36.");
    expect(() => setStatement(new Map([["insert_quorum", "2"]]), new Map())).toThrow("Code: 48.");
    expect(() => setStatement(new Map([["format_schema", "/etc/x"]]), new Map())).toThrow("Code: 497.");
    expect([literal("a'b"), identifier("a`b\\")]).toEqual(["'a\\'b'", "`a\\`b\\\\`"]);
  });
});

it.each([
  ["JSON", "application/json; charset=UTF-8"],
  ["JSONEachRow", "application/x-ndjson; charset=UTF-8"],
  ["JSONCompactEachRowWithNames", "application/x-ndjson; charset=UTF-8"],
  ["CSV", "text/csv; charset=UTF-8; header=absent"],
  ["CSVWithNames", "text/csv; charset=UTF-8; header=present"],
  ["TabSeparated", "text/tab-separated-values; charset=UTF-8"],
  ["Parquet", "application/octet-stream"],
  ["Pretty", "text/plain; charset=UTF-8"],
])("%s is sent as %s", (format, type) => {
  expect(contentType(format)).toBe(type);
});

describe("max_query_size", () => {
  it("leaves the engine room for what is added to a text, and only where there is none", () => {
    expect(engineLimit("262144", 1000)).toBeNull();
    expect(Number(engineLimit("262144", 262_144))).toBeGreaterThan(262_144 + 8192);
    expect(Number(engineLimit("8", 8))).toBeGreaterThan(8192);
    for (const value of ["0", "1M", "junk"]) expect(engineLimit(value, 1 << 20)).toBeNull();
  });

  it("refuses a text that is longer", () => {
    expect(() => engineLimit("8", 9)).toThrow(/^Code: 62\..*max_query_size = 8 bytes/);
  });
});
