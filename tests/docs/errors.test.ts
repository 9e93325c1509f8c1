// Goal: the registry of error codes is complete and holds nothing that is gone. Method: the codes are read from the
// sources (upper-case words in each package's error files) and compared with the tables of docs/errors.md.
import { readFile, readdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

/** Where a package declares its codes: unions named …ErrorCode or …FailureCode, and classes with one code. */
const unions = /type \w+(?:Error|Failure)Code =([^;]+);/g;
const single = /readonly code = "(\w+)"/g;

async function declaredCodes(name: string): Promise<string[]> {
  const folder = join(root, "packages", name, "src");
  const files = (await readdir(folder, { recursive: true })).filter((file) => file.endsWith(".ts"));
  const codes = new Set<string>();
  for (const file of files) {
    const text = await readFile(join(folder, file), "utf8");
    for (const [, union = ""] of text.matchAll(unions)) {
      for (const [, code = ""] of union.matchAll(/"(\w+)"/g)) codes.add(code);
    }
    for (const [, code = ""] of text.matchAll(single)) codes.add(code);
  }
  return [...codes].sort();
}

async function registeredCodes(name: string): Promise<string[]> {
  const text = await readFile(join(root, "docs", "errors.md"), "utf8");
  const section = text.split(/^## /m).find((part) => part.startsWith(`${name}\n`)) ?? "";
  return [...section.matchAll(/^\| `([A-Z0-9_]+)`\s*\|/gm)].map(([, code = ""]) => code).sort();
}

const names = await readdir(join(root, "packages"));

describe("the registry of error codes", () => {
  it.for(names)("%s: docs/errors.md lists exactly the codes that the sources declare", async (name) => {
    expect(await registeredCodes(name)).toEqual(await declaredCodes(name));
  });
});
