// Goal: the words of a statement are read as the engine reads them, so that the gate sees what will run. Method: tables of texts.
import { describe, expect, it } from "vitest";
import { QueryError } from "../../src/clickhouse-errors.js";
import { markOf, QueryIds, withOurIds } from "../../src/query-ids.js";
import { checkSetting, checkStatement, isInsert, type GateContext } from "../../src/sql-gate.js";
import { tokens } from "../../src/sql-lexer.js";
import { hasTextAfterValues, splitInsert, splitSelect } from "../../src/sql-split.js";

const texts = (sql: string): string[] => tokens(sql).map((t) => t.text);
const kinds = (sql: string): string[] => tokens(sql).map((t) => t.kind);

describe("tokens", () => {
  it.each([
    ["SELECT a.b, 1.5e3 FROM t", ["SELECT", "a", ".", "b", ",", "1.5e3", "FROM", "t"]],
    ["a--b\nc", ["a", "c"]],
    ["a /* b -- */ c", ["a", "c"]],
    ["#! line\na # line\nb", ["a", "b"]],
    ["'a''b' 'c\\'d'", ["'a''b'", "'c\\'d'"]],
    ['`a\\`b` "c""d"', ["a`b", 'c"d']],
    ["$tag$ 'a' ; $tag$ x", ["$tag$ 'a' ; $tag$", "x"]],
    ["$$;$$", ["$$;$$"]],
    ["\u2018a;b\u2019 \u201cc d\u201d", ["\u2018a;b\u2019", "c d"]],
    ["a\u00a0b\ufeff", ["a", "b"]],
    ["{p:Array(String)}", ["{", "p", ":", "Array", "(", "String", ")", "}"]],
  ])("of %j", (sql, expected) => {
    expect(texts(sql)).toEqual(expected);
  });

  it.each([["'never ends"], ["`never ends"], ["/* never ends"], ["a 'b\\'"], ["\u201cnever ends"]])(
    "end with what never ends: %j",
    (sql) => {
      expect(kinds(sql).at(-1)).toBe("open");
    },
  );
});

describe("an INSERT with data", () => {
  it.each([
    ["INSERT INTO t FORMAT CSV\n1,2", "INSERT INTO t ", "CSV", "1,2"],
    ["insert into db.t (a, b) format JSONEachRow {}", "insert into db.t (a, b) ", "JSONEachRow", "{}"],
    ["INSERT INTO t VALUES (1)", "INSERT INTO t ", "Values", " (1)"],
    ["INSERT INTO t(a)VALUES(1);", "INSERT INTO t(a)", "Values", "(1);"],
    ["INSERT INTO values VALUES (1)", "INSERT INTO values ", "Values", " (1)"],
    ["INSERT INTO db.format FORMAT TSV", "INSERT INTO db.format ", "TSV", ""],
    ["INSERT INTO `format` (`values`) FORMAT TSV", "INSERT INTO `format` (`values`) ", "TSV", ""],
    ["INSERT INTO {t:Identifier} FORMAT TSV", "INSERT INTO {t:Identifier} ", "TSV", ""],
    [
      "INSERT INTO TABLE FUNCTION null('a UInt8') VALUES (1)",
      "INSERT INTO TABLE FUNCTION null('a UInt8') ",
      "Values",
      " (1)",
    ],
    ["INSERT INTO t (* EXCEPT(a)) FORMAT RowBinary\n\n\n", "INSERT INTO t (* EXCEPT(a)) ", "RowBinary", "\n\n"],
    ["INSERT INTO t SETTINGS async_insert=0 FORMAT CSV \r\n1", "INSERT INTO t SETTINGS async_insert=0 ", "CSV", "1"],
    ["/* x */ INSERT INTO t -- FORMAT TSV\n FORMAT CSV 1", "/* x */ INSERT INTO t -- FORMAT TSV\n ", "CSV", "1"],
  ])("is split where its data starts: %j", (sql, head, format, data) => {
    const split = splitInsert(sql);
    expect([split?.head, split?.format, sql.slice(split?.dataAt)]).toEqual([head, format, data]);
  });

  it("knows where its settings are", () => {
    const split = splitInsert("INSERT INTO t (a) SETTINGS x=1 FORMAT CSV");
    expect(split?.head.slice(split.settingsAt)).toBe("SETTINGS x=1 ");
  });

  it.each([
    ["INSERT INTO t SELECT 1 FORMAT CSV"],
    ["INSERT INTO t (a) WITH x AS (SELECT 1) SELECT * FROM x"],
    ["INSERT INTO t FROM INFILE 'x' FORMAT CSV"],
    ["INSERT INTO t; DROP TABLE t; INSERT INTO t FORMAT CSV"],
    ["SELECT 1 FORMAT CSV"],
    ["INSERT INTO t 'FORMAT CSV"],
    ["INSERT INTO t FORMAT"],
    [""],
  ])("is not seen in %j", (sql) => {
    expect(splitInsert(sql)).toBeNull();
  });

  it("has text after VALUES only behind a semicolon", () => {
    expect(hasTextAfterValues("(1), (2)")).toBe(false);
    expect(hasTextAfterValues("(1), ('; x');  -- end\n")).toBe(false);
    expect(hasTextAfterValues("(1); DROP TABLE t")).toBe(true);
  });
});

describe("a SELECT", () => {
  it.each([
    ["SELECT 1", "SELECT 1", null],
    ["SELECT 1 FORMAT JSON", "SELECT 1            ", "JSON"],
    ["SELECT 1 FORMAT JSON ; -- end", "SELECT 1            ", "JSON"],
    ["SELECT 1 FORMAT CSV SETTINGS a=1", "SELECT 1            SETTINGS a=1", "CSV"],
    ["SELECT 1 SETTINGS a=1 FORMAT CSV", "SELECT 1 SETTINGS a=1           ", "CSV"],
    ["SELECT format FROM t", "SELECT format FROM t", null],
    ["SELECT format AS x FROM t", "SELECT format AS x FROM t", null],
    ["(SELECT 1) UNION ALL (SELECT 2 FORMAT x)", "(SELECT 1) UNION ALL (SELECT 2 FORMAT x)", null],
    ["WITH 1 AS x SELECT x FORMAT `CSV`", "WITH 1 AS x SELECT x             ", "CSV"],
    ["FROM t SELECT a", "FROM t SELECT a", null],
  ])("loses its FORMAT and nothing else: %j", (sql, rest, format) => {
    const select = splitSelect(tokens(sql), sql);
    expect([select?.sql.trimEnd(), select?.format]).toEqual([rest.trimEnd(), format]);
  });

  it.each([
    "SHOW TABLES",
    "EXPLAIN SELECT 1",
    "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x",
    "DROP TABLE t",
    "SELECT 'open",
  ])("is not %j", (sql) => {
    expect(splitSelect(tokens(sql), sql)).toBeNull();
  });

  it("is told from an INSERT after WITH", () => {
    expect(isInsert(tokens("WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x"))).toBe(true);
    expect(isInsert(tokens("WITH x AS (SELECT insert(1)) SELECT * FROM x"))).toBe(false);
  });
});

describe("the gate", () => {
  const open: GateContext = { inSession: false, readonly: false, params: new Map() };
  const verdict = (sql: string, context: Partial<GateContext> = {}): number => {
    try {
      checkStatement(tokens(sql), sql, { ...open, ...context });
      return 0;
    } catch (error) {
      if (error instanceof QueryError) return error.clickhouseCode;
      throw error;
    }
  };

  it.each([
    ["SELECT 1 INTO OUTFILE 'x'"],
    ["SELECT 1 into /* */ -- \n outfile 'x'"],
    ["SELECT '\\'' INTO OUTFILE 'x'"],
    ["SELECT `a\\`` INTO OUTFILE 'x'"],
    ["SELECT $a$'$a$ INTO OUTFILE 'x'"],
    ["SELECT 'open INTO OUTFILE x"],
    ["INSERT INTO t FROM INFILE 'x' FORMAT CSV"],
    ["SELECT FILE ('x')"],
    ["SELECT * FROM (SELECT * FROM `url`('x'))"],
    ["INSERT INTO FUNCTION file('x') SELECT 1"],
    ["DESCRIBE TABLE file('x')"],
    ["CREATE TABLE t ENGINE FileLog('x', 'CSV')"],
    ["SELECT * APPLY file FROM t"],
    ["SELECT arrayMap(`file`, x) FROM t"],
    ["SELECT * FROM format(VALUES, '(1)')"],
    ["SELECT * FROM format(CSV, $$a UInt8 MATERIALIZED file('x')$$, '')"],
    ["SELECT * FROM format(CSV, {d:String})"],
    ["CREATE TABLE t AS null(('a UInt8 DEF' || 'AULT 1'))"],
    ["CREATE TABLE t AS values(concat('a'), 1)"],
    ["CREATE DICTIONARY d (k UInt8) PRIMARY KEY k SOURCE(CLICKHOUSE(UPDATE_FIELD 'x' TABLE 't'))"],
    ["CREATE DICTIONARY d (k UInt8) PRIMARY KEY k SOURCE(CLICKHOUSE(TABLE concat('a', 'b')))"],
    ["SELECT 1 SETTINGS dialect = 'prql'"],
    ["CREATE OR REPLACE DICTIONARY d (k UInt8) PRIMARY KEY k SOURCE(EXECUTABLE(COMMAND 'id'))"],
    ["CREATE DICTIONARY d (k UInt8) PRIMARY KEY k SOURCE(CLICKHOUSE(HOST 'h' TABLE 't'))"],
    ["SELECT 1 SETTINGS format_schema = '/etc/x'"],
    ["ATTACH TABLE t FROM '/etc'"],
    ["SYSTEM SHUTDOWN"],
    ["SYSTEM"],
    ["system stop listen http"],
    ["DROP DATABASE IF EXISTS `default` SYNC"],
  ])("refuses %j", (sql) => {
    expect(verdict(sql)).toBe(497);
  });

  it.each([
    ["SELECT 'INTO OUTFILE', 'file(x)' -- file('x')"],
    ["SELECT `into outfile` FROM t"],
    ["SELECT file, url FROM t WHERE file = 'x'"],
    ["CREATE TABLE file (url String) ENGINE = MergeTree ORDER BY url"],
    ["INSERT INTO db.url (a) SELECT 1"],
    ["INSERT INTO s3 (a) SELECT 1"],
    ["SELECT lower(file), max(file), arrayJoin(file) FROM t GROUP BY file"],
    ["INSERT INTO t (file, a) SELECT file, a FROM u"],
    ["CREATE TABLE values (a String DEFAULT 'x', b Nullable(String) DEFAULT NULL) ENGINE = Null()"],
    ["SELECT format('{}', a), coalesce(NULL, 1) FROM values(now(), 2)"],
    ["CREATE DICTIONARY d (k UInt8) PRIMARY KEY k SOURCE(CLICKHOUSE(TABLE 't' DB 'd'))"],
    ["ALTER TABLE t ATTACH PARTITION 1 FROM u"],
    ["SELECT * FROM system.tables WHERE engine = 'File'"],
    ["SELECT log_comment FROM t WHERE log_comment = 'x'"],
    ["SYSTEM STOP MERGES t"],
    ["DROP DATABASE mine"],
    ["KILL QUERY WHERE query_id = 'sync' ASYNC"],
    ["INSERT INTO t SETTINGS insert_quorum = 1 SELECT 1"],
  ])("lets %j pass", (sql) => {
    expect(verdict(sql)).toBe(0);
  });

  it("knows databases that come as a parameter", () => {
    expect(verdict("DROP DATABASE {d:Identifier}", { params: new Map([["d", "Default"]]) })).toBe(497);
    expect(verdict("DROP DATABASE {d:Identifier}", { params: new Map([["d", "mine"]]) })).toBe(0);
  });

  it("lets SET and USE pass in sessions only, and nothing that writes when only reading is allowed", () => {
    expect([verdict("SET a = 1"), verdict("SET a = 1", { inSession: true })]).toEqual([48, 0]);
    expect([verdict("USE a"), verdict("USE a", { inSession: true })]).toEqual([48, 0]);
    for (const sql of [
      "INSERT INTO t SELECT 1",
      "WITH x AS (SELECT 1) INSERT INTO t SELECT 1",
      "DROP TABLE t",
      "OPTIMIZE TABLE t",
      "KILL QUERY WHERE 1",
    ]) {
      expect([sql, verdict(sql, { readonly: true })]).toEqual([sql, 164]);
    }
    for (const sql of ["SELECT 1", "(SELECT 1)", "WITH 1 AS a SELECT a", "SHOW TABLES", "EXISTS t", "DESCRIBE t"]) {
      expect([sql, verdict(sql, { readonly: true })]).toEqual([sql, 0]);
    }
  });

  it("refuses a quorum wherever it is asked for", () => {
    expect(verdict("INSERT INTO t SETTINGS insert_quorum = 2 SELECT 1")).toBe(48);
    expect(verdict("SET insert_quorum = 'auto'", { inSession: true })).toBe(48);
    expect(() => checkSetting("insert_quorum", "3")).toThrow("one node");
    expect(() => checkSetting("insert_quorum", "1")).not.toThrow();
  });
});

describe("ids of queries", () => {
  it("are the last word of log_comment", () => {
    expect([markOf("a b", undefined), markOf("id", "x y"), markOf("id", "")]).toEqual(["a_b", "x y id", "id"]);
  });

  it("are meant by query_id in KILL QUERY only", () => {
    const ours = "(splitByChar(' ', Settings['log_comment'])[-1])";
    const rewritten = (sql: string): string => withOurIds(tokens(sql), sql);
    expect(rewritten("KILL QUERY WHERE query_id = 'query_id' OR `query_id` IN ('b') ASYNC")).toBe(
      `KILL QUERY WHERE ${ours} = 'query_id' OR ${ours} IN ('b') ASYNC`,
    );
    expect(rewritten("SELECT query_id FROM t")).toBe("SELECT query_id FROM t");
  });

  it("are one query's at a time", () => {
    const ids = new QueryIds();
    const first = ids.enter("a");
    expect(() => ids.enter("a")).toThrow("Code: 216.");
    first.leave();
    expect(() => ids.enter("a")).not.toThrow();
  });
});
