// Goal: the decisions of the ClickHouse adapter that need no socket. Method: tables, and random splits of bodies.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { capSeconds } from "@holdfast/deadline-http/clickhouse";
import { bodyCheck, ResponseBodyError, type BodyFacts } from "../../src/clickhouse/body-check.js";
import { changedInteger } from "../../src/clickhouse/integers.js";
import { carriesRows, kindOf } from "../../src/clickhouse/statement.js";
import { isTlsError, provesNotConnected } from "../../src/net-errors.js";

describe("capSeconds", () => {
  it.each([
    [4_999, "4.999"],
    [5_000, "5.000"],
    [999.9, "0.999"],
    [1, "0.001"],
    [0.2, "0.001"],
    [0, "0.001"],
    [-7, "0.001"],
    [3e9, "3000000.000"],
    [Infinity, "0"],
  ])("%d ms is %s", (ms, text) => expect(capSeconds(ms)).toBe(text));
  it("NaN is refused", () => expect(() => capSeconds(NaN)).toThrow("CONFIG_INVALID"));
});

describe("statements", () => {
  it.each([
    ["SELECT 1", "read"],
    ["  \n-- note\n/* more\n */ select 1", "read"],
    ["# note\nSHOW TABLES", "read"],
    ["DESCRIBE TABLE t", "read"],
    ["desc t", "read"],
    ["EXISTS t", "read"],
    ["CHECK TABLE t", "read"],
    ["WITH 1 AS x SELECT x", "read"],
    ["WITH 1 AS x INSERT INTO t SELECT x", "write"],
    ["INSERT INTO t SELECT 1", "write"],
    ["(SELECT 1) UNION ALL (SELECT 2)", "write"],
    ["selection", "write"],
    ["ALTER TABLE t DELETE WHERE 1", "write"],
    ["", "write"],
  ])("%j is a %s", (statement, kind) => expect(kindOf(statement)).toBe(kind));

  it.each([
    ["INSERT INTO t VALUES (1)", true],
    ["insert into t format JSONEachRow {}", true],
    ["INSERT INTO t SELECT 1", false],
    ["INSERT INTO t VALUES (1, 'please select'), (2", true],
    ["INSERT INTO t (select) FORMAT CSV 1", true],
    ["INSERT INTO t SELECT a FROM input('a UInt8') FORMAT CSV 1", true],
    ["CREATE TABLE t (a Int8) ENGINE = Null", false],
  ])("%j carries rows: %s", (statement, carries) => expect(carriesRows(statement)).toBe(carries));
});

describe("integers", () => {
  it.each([
    ['{"a":9007199254740993}', "9007199254740993"],
    ["[-9007199254740993]", "-9007199254740993"],
    ["18446744073709551615", "18446744073709551615"],
    ['{"a":"9007199254740993"}', null],
    ['{"a":": 9007199254740993,"}', null],
    ['{"a":"\\": 9007199254740993,"}', null],
    ['{"a":9007199254740992,"b":123456789012345}', null],
    ['{"a":100000000000000000000,"b":1e300,"c":1234567890123456.5}', null],
    ['{"a":"x\\\\","b":9007199254740993}', "9007199254740993"],
  ])("%s: %s", (json, changed) => expect(changedInteger(json)).toBe(changed));

  it("after a string of many MB, escapes in it", () => {
    const long = " 9007199254740993" + 'x\\"'.repeat(5_000_000);
    expect(changedInteger(`{"a":"${long}","b":9007199254740993}`)).toBe("9007199254740993");
    expect(changedInteger(`{"a":"${long}`)).toBeNull();
  });
});

describe("what an error proves", () => {
  const node = (o: object) => Object.assign(new Error("x"), o);
  it.each([
    [node({ code: "ECONNREFUSED", syscall: "connect" }), true],
    [node({ code: "ENOTFOUND", syscall: "getaddrinfo" }), true],
    [node({ code: "ETIMEDOUT", syscall: "connect" }), true],
    [node({ code: "ETIMEDOUT", syscall: "read" }), false],
    [node({ code: "ECONNRESET", syscall: "read" }), false],
    [node({ code: "EPIPE", syscall: "write" }), false],
    [
      new AggregateError([
        node({ code: "ETIMEDOUT", syscall: "connect" }),
        node({ code: "ENETUNREACH", syscall: "connect" }),
      ]),
      true,
    ],
    [
      new AggregateError([
        node({ code: "ETIMEDOUT", syscall: "connect" }),
        node({ code: "ETIMEDOUT", syscall: "read" }),
      ]),
      false,
    ],
    [node({ cause: node({ code: "UND_ERR_CONNECT_TIMEOUT" }) }), true],
    [node({ outcome: "not-sent", cause: node({ code: "ECONNREFUSED" }) }), true],
    [node({ outcome: "refused", cause: node({ code: "ECONNREFUSED" }) }), false],
    [undefined, false],
  ])("%s", (error, proved) => expect(provesNotConnected(error)).toBe(proved));

  it.each(["CERT_HAS_EXPIRED", "UNABLE_TO_VERIFY_LEAF_SIGNATURE", "ERR_TLS_CERT_ALTNAME_INVALID", "EPROTO"])(
    "%s is about TLS",
    (code) => expect(isTlsError(node({ code }))).toBe(true),
  );
});

describe("body checks", () => {
  const facts = (o: Partial<BodyFacts>): BodyFacts => ({
    format: "JSONEachRow",
    tag: undefined,
    framed: true,
    write: false,
    exceptionsAreData: false,
    ...o,
  });
  const through = (body: Buffer, cuts: readonly number[], o: Partial<BodyFacts>): string | ResponseBodyError => {
    const check = bodyCheck(facts(o));
    const out: Buffer[] = [];
    let from = 0;
    try {
      for (const at of [...cuts].sort((a, b) => a - b)) {
        out.push(...check.push(body.subarray(from, Math.max(from, at))));
        from = Math.max(from, at);
      }
      out.push(...check.push(body.subarray(from)), ...check.end());
    } catch (error) {
      return error as ResponseBodyError;
    }
    return Buffer.concat(out).toString();
  };
  const row = fc.oneof(
    fc.dictionary(fc.string(), fc.oneof(fc.string(), fc.integer())),
    fc.record({ exception: fc.string() }),
    fc.record({ exception: fc.constant("Code: 1. DB::Exception: x"), a: fc.integer() }),
    fc.record({ ex: fc.integer() }),
  );
  const cuts = fc.array(fc.nat(400), { maxLength: 12 });

  it("DL-25 data comes through unchanged in every split", () => {
    fc.assert(
      fc.property(fc.array(row, { maxLength: 8 }), cuts, (rows, at) => {
        const text = rows.map((one) => `${JSON.stringify(one)}\n`).join("");
        expect(through(Buffer.from(text), at, {})).toBe(text);
        const document = JSON.stringify({ data: rows, rows: rows.length });
        expect(through(Buffer.from(document), at, { format: "JSON" })).toBe(document);
      }),
      { numRuns: 300 },
    );
  });

  it("DL-25 an exception after any rows, in each of its forms, is found in every split", () => {
    const text = "Code: 395. DB::Exception: made up. (SOME_NAME) (version 26.7.2.1)\n";
    const forms = [
      text,
      `{"exception": ${JSON.stringify(text)}}\n`,
      `["${text.trim()}"]\n`,
      `\r\n__exception__\r\nabcdefghijklmnop\r\n${text}${text.length} abcdefghijklmnop\r\n__exception__\r\n`,
    ];
    const plain = fc.array(fc.record({ a: fc.string() }), { maxLength: 8 });
    fc.assert(
      fc.property(plain, cuts, fc.constantFrom(...forms), (rows, at, form) => {
        const body = Buffer.from(rows.map((one) => `${JSON.stringify(one)}\n`).join("") + form);
        expect(through(body, at, { tag: "abcdefghijklmnop" })).toMatchObject({ serverCode: 395 });
      }),
      { numRuns: 300 },
    );
  });

  it("DL-25 rows that are cut anywhere but at the end of one are not whole", () => {
    const text = Buffer.from('{"a":1,"exception":"x"}\n{"exception":"y"}\n{"a":3}\n');
    for (let length = 1; length < text.length; length++) {
      const result = through(text.subarray(0, length), [], {});
      if (text[length - 1] === 0x0a) expect(result).toBe(text.subarray(0, length).toString());
      else expect(result).toBeInstanceOf(ResponseBodyError);
    }
  });

  it("text in a column is text, and the server's message at the end is not", () => {
    const words = "Code: 5. DB::Exception: I say so\t1\n";
    expect(through(Buffer.from(words), [], { format: "TSV" })).toBe(words);
    const message = `1\nCode: 5. DB::Exception: really (NAME) (version 26.7.2.1)\n`;
    expect(through(Buffer.from(message), [], { format: "TSV" })).toMatchObject({ serverCode: 5 });
    expect(through(Buffer.from(message), [], { format: "TSV", exceptionsAreData: true })).toBe(message);
    expect(through(Buffer.from(""), [], { format: null, write: true })).toBe("");
    expect(through(Buffer.from(words), [], { format: null, write: true })).toMatchObject({ serverCode: 5 });
  });
});
