// Goal: no path gets into a commit that could not be checked out everywhere, or that leads out of the tree. Method: sentences in tables.
import { describe, expect, it } from "vitest";
import { NameIndex } from "../../src/names.js";
import { checkPath } from "../../src/paths.js";

const refusal = (work: () => void): string | null => {
  try {
    work();
    return null;
  } catch (error) {
    expect((error as { code?: string }).code).toBe("INVALID_KEY");
    return (error as Error).message;
  }
};

describe("a path", () => {
  it.each([
    ["leads up", "a/../../etc/passwd", 'leads elsewhere by ".."'],
    ["begins by leading up", "../x", 'leads elsewhere by ".."'],
    ["stays where it is", "./a", 'leads elsewhere by "."'],
    ["is absolute", "/etc/passwd", "has an empty name"],
    ["is a folder", "a/", "has an empty name"],
    ["has two slashes", "a//b", "has an empty name"],
    ["has a backslash", "a\\..\\b", "has a backslash"],
    ["is git's own", ".git/config", 'has the name ".git"'],
    ["is git's own in capitals", "a/.GIT", 'has the name ".GIT"'],
    ["is git's own on Windows", "GIT~1/hooks/post-checkout", "which git keeps for itself"],
    ["is git's own with dots and spaces behind it", ".git. . /config", "which git keeps for itself"],
    ["is a stream of git's own", ".git::$INDEX_ALLOCATION/config", "which git keeps for itself"],
    ["is git's own on macOS", ".g\u200cit/config", "which git keeps for itself"],
    ["names submodules", ".gitmodules", "which git keeps for itself"],
    ["has a newline", "a\nb", "U+000A"],
    ["is too long to be a name", "x".repeat(256), "over the limit of 255"],
  ])("that %s is refused, and the message says what and what to do", (_, path, words) => {
    expect(refusal(() => checkPath(path))).toContain(words);
  });

  it.each([
    "a",
    "a/b/c.json",
    ".github/x",
    ".gitignore",
    "git",
    "a.git/b",
    "ä/ö",
    "a b",
    "a:b",
    "x".repeat(255),
    "...",
    "-x",
    "a*?[",
    '"q"',
  ])("%j is taken", (path) => {
    expect(refusal(() => checkPath(path))).toBeNull();
  });
});

describe("names beside each other", () => {
  const beside = (there: readonly string[], path: string): string | null => {
    const names = new NameIndex();
    for (const one of there) names.add(one);
    return refusal(() => names.check(path));
  };

  it.each([
    ["a file in other capitals", ["Policy.json"], "policy.json", 'one name with "Policy.json"'],
    ["a folder in other capitals", ["Policies/a"], "policies/b", 'one name with "Policies"'],
    ["a file and a folder in other capitals", ["A/x"], "a", 'one name with "A"'],
    ["composed and decomposed letters", ["\u00e9"], "e\u0301", "compose letters"],
    ["letters of one capital", ["stra\u00dfe"], "STRASSE", "one name"],
    ["a file below a file", ["a"], "a/b", "is below"],
    ["a file where a folder is", ["a/b"], "a", "is a folder"],
  ])("%s clash", (_, there, path, words) => {
    expect(beside(there, path)).toContain(words);
  });

  it("what has gone does not clash, and a name that is there twice stays until both have gone", () => {
    const names = new NameIndex();
    for (const path of ["A/x", "A/y"]) names.add(path);
    names.remove("A/x");
    expect(refusal(() => names.check("a/z"))).toContain("one name");
    names.remove("A/y");
    expect(refusal(() => names.check("a/z"))).toBeNull();
    expect(beside(["a/b", "a/c", "b"], "a/d")).toBeNull();
  });
});
