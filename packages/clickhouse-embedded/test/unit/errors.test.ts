// Goal: errors reach the client as ClickHouse writes them, and say no more than they should.
import { describe, expect, it } from "vitest";
import { fromEngine, httpStatus, QueryError } from "../../src/clickhouse-errors.js";
import { exceptionBlock } from "../../src/response.js";

const version = "(version 26.7.2.1 (official build))";

describe("an error of the engine", () => {
  it.each([
    [
      "Code: 60. DB::Exception: Unknown table. (UNKNOWN_TABLE)",
      60,
      `Code: 60. DB::Exception: Unknown table. (UNKNOWN_TABLE) ${version}`,
    ],
    [
      "Code: 115. DB::Exception: Code: 115. DB::Exception: Unknown setting 'x'. (UNKNOWN_SETTING) (version 26.7.2.1). (UNKNOWN_SETTING)",
      115,
      `Code: 115. DB::Exception: Unknown setting 'x'. (UNKNOWN_SETTING) ${version}`,
    ],
    [
      "Code: 27. DB::Exception: Cannot parse (x): (at row 1)\n: (in file/uri /data/run/7.body). (CANNOT_PARSE_INPUT_ASSERTION_FAILED)",
      27,
      `Code: 27. DB::Exception: Cannot parse (x): (at row 1)\n. (CANNOT_PARSE_INPUT_ASSERTION_FAILED) ${version}`,
    ],
    ["something else", 1002, `Code: 1002. DB::Exception: something else. (UNKNOWN_EXCEPTION) ${version}`],
  ])("%s", (text, code, expected) => {
    const error = fromEngine(new Error(text), ["/data/run/7.body"]);
    expect([error.clickhouseCode, error.text]).toEqual([code, expected]);
  });

  it("never shows the path of the spool", () => {
    const error = fromEngine(
      new Error("Code: 76. DB::Exception: Cannot open file /data/run/7.body, errno: 2. (CANNOT_OPEN_FILE)"),
      ["/data/run/7.body"],
    );
    expect(error.text).toContain("Cannot open file <body>,");
  });

  it("stays what it is when it is one already", () => {
    const own = QueryError.of(373, "Session a is locked.");
    expect(fromEngine(own)).toBe(own);
    expect(own.text).toBe(`Code: 373. DB::Exception: Session a is locked. (SESSION_IS_LOCKED) ${version}`);
  });
});

it.each([
  [62, 400],
  [60, 404],
  [115, 404],
  [516, 403],
  [159, 408],
  [48, 501],
  [202, 500],
  [99999, 500],
])("code %i has HTTP status %i", (code, status) => {
  expect(httpStatus(code)).toBe(status);
});

it("an error in the middle of a result is a block with its tag and its length in bytes", () => {
  const error = QueryError.of(394, "stopped at é");
  const block = exceptionBlock("0123456789abcdef", error).toString();
  const length = Buffer.byteLength(`${error.text}\n`);
  expect(block).toBe(
    `\r\n__exception__\r\n0123456789abcdef\r\n${error.text}\n${String(length)} 0123456789abcdef\r\n__exception__\r\n`,
  );
});
