// Goal: the gate sees what the engine sees, whatever the text: a difference in reading quotes, comments or space would hide a word from it.
// Method: random texts of awkward pieces; the engine parses each and writes it back in plain form (formatQuery); what the gate refuses in the
// plain form it must refuse in the text. Fails within seconds when, for one, the lexer takes a no-break space for part of a word.
import fc from "fast-check";
import { expect, it } from "vitest";
import { checkStatement, type GateContext } from "../../src/sql-gate.js";
import { tokens } from "../../src/sql-lexer.js";
import { useServer } from "./support.js";

const s = useServer();

const awkward =
  "' \" ` \\ -- /* */ # #! $ $a$ $$ \u201c \u201d \u2018 \u2019 \u2212 \u2212\u2212 ; a x' b' X' 1 0x e 'x' '' // \\' = . @ @@ ? : { } é N' E' ^ ! ~ | % -";
const pieces = [
  ...awkward.split(" "),
  ..." |\n|\r|\v|\f|\0|\x01|\u0085|\u00a0|\u200b|\u3000|\u2028".split("|"),
  "# ",
  "-- ",
  ", 1",
];
const refused = [
  " INTO OUTFILE 'x'",
  "\u00a0INTO\u00a0OUTFILE\u00a0'x'",
  ", file('x')",
  ", `file` ('x')",
  " SETTINGS format_schema = 'x'",
];
const piece = fc.constantFrom(...pieces);
const text = fc
  .tuple(fc.array(piece, { maxLength: 5 }), fc.constantFrom(...refused), fc.array(piece, { maxLength: 5 }))
  .map(([before, hot, after]) => `SELECT 1 ${before.join("")}${hot}${after.join("")}`);

const context: GateContext = { inSession: false, readonly: false, params: new Map() };
const passes = (sql: string): boolean => {
  try {
    checkStatement(tokens(sql), sql, context);
    return true;
  } catch {
    return false;
  }
};

it("the gate refuses what the engine would run, in 20000 awkward texts", async () => {
  const texts = fc.sample(text, { seed: 20260101, numRuns: 20_000 });
  await s.plain().command({ query: "CREATE TABLE texts (t String) ENGINE = Memory" });
  await s.plain().insert({ table: "texts", values: texts.map((t) => ({ t })), format: "JSONEachRow" });
  const parsed = (await s.rows(
    "SELECT t, formatQuerySingleLineOrNull(t) AS plain FROM texts WHERE plain IS NOT NULL",
  )) as [string, string][];
  const dangerous = parsed.filter(([, plain]) => !passes(plain));
  expect(dangerous.length).toBeGreaterThan(500);
  expect(dangerous.filter(([t]) => passes(t))).toEqual([]);
});
