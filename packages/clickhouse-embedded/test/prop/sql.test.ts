// Goal: whatever a caller puts into data, strings or names stays data. Method: build statements around arbitrary text.
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { identifier, literal } from "../../src/settings-sql.js";
import { tokens } from "../../src/sql-lexer.js";
import { splitInsert } from "../../src/sql-split.js";

const nasty = fc.string({
  unit: fc.constantFrom(
    "'",
    '"',
    "`",
    "\\",
    "\n",
    ";",
    "-",
    "/",
    "*",
    "$",
    " ",
    "a",
    "FORMAT ",
    "VALUES",
    "\0",
    "\u2019",
    "é",
    "🙂",
  ),
});

describe("arbitrary text", () => {
  it("in a literal is one string token and nothing else", () => {
    fc.assert(
      fc.property(nasty, (text) => {
        const all = tokens(`SELECT ${literal(text)}, 1`);
        expect(all.map((t) => t.kind)).toEqual(["word", "string", "punct", "number"]);
      }),
    );
  });

  it("in an identifier is one name, and comes back as it was", () => {
    fc.assert(
      fc.property(nasty, (text) => {
        const all = tokens(`SELECT ${identifier(text)}, 1`);
        expect(all.map((t) => t.kind)).toEqual(["word", "quoted", "punct", "number"]);
        expect(all[1]?.text).toBe(text);
      }),
    );
  });

  it("after FORMAT is data from its first character on", () => {
    fc.assert(
      fc.property(nasty, (data) => {
        const sql = `INSERT INTO t (a) FORMAT CSV\n${data}`;
        const split = splitInsert(sql);
        expect(sql.slice(split?.dataAt)).toBe(data);
        expect(split?.head).toBe("INSERT INTO t (a) ");
      }),
    );
  });

  it("never makes the lexer lose a character or loop", () => {
    fc.assert(
      fc.property(nasty, (sql) => {
        let at = 0;
        for (const t of tokens(sql)) {
          expect(t.start).toBeGreaterThanOrEqual(at);
          expect(t.end).toBeGreaterThan(t.start);
          at = t.end;
        }
        expect(at).toBeLessThanOrEqual(sql.length);
      }),
    );
  });
});
