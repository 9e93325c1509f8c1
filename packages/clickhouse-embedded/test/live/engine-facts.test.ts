// Goal: notice when an upgrade of the engine changes what the server's design rests on. Method: ask the engine itself, in a process of its own.
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { beforeAll, describe, expect, it } from "vitest";

let facts: Record<string, unknown> = {};
beforeAll(async () => {
  const script = fileURLToPath(new URL("engine-facts-child.mjs", import.meta.url));
  // It kills itself once all is printed: the engine may take its time to end.
  const out = await promisify(execFile)(process.execPath, [script]).catch(
    (error: unknown) => error as { stdout: string; stderr: string },
  );
  if (out.stdout === "") throw new Error(`the engine did not answer: ${out.stderr}`);
  facts = JSON.parse(out.stdout) as Record<string, unknown>;
});

describe("the engine", () => {
  it("is the version that the package was made for", () => {
    expect(facts["package"]).toBe("3.4.0");
    expect(facts["version"]).toBe("26.7.2.1");
  });

  it("runs what follows an empty line in inline data as SQL, so bodies go through files", () => {
    expect(facts["inlineDataRunsAsSql"]).toBe(true);
    expect(facts["fromFile"]).toBe(3);
    expect(facts["fromSelect"]).toBe(0);
  });

  it("counts the statements of a text", () => {
    expect(facts["counts"]).toEqual([1, 2, 1, 2, 0, 1]);
  });

  it("makes each streamed chunk a document of its own, and INTO OUTFILE one document, also through a named pipe", () => {
    expect(facts["streamedHeaders"]).toBeGreaterThan(1);
    expect(facts["pipedHeaders"]).toBe(1);
    expect(facts["pipedLines"]).toBe(200_001);
  });

  it("sets a setting back to the compiled default and not to the profile's, so sessions are not used again", () => {
    expect([facts["changed"], facts["byDefault"], facts["anotherSession"]]).toEqual(["5\n", "0\n", "7\n"]);
  });

  it("ends a query that is killed by log_comment, and keeps its session usable", () => {
    expect(facts["killed"]).toMatch(/^Code: 394\./);
    expect(facts["usableAfterKill"]).toBe("1\n");
  });

  it("accepts a quorum that it cannot keep, so the server refuses it", () => {
    expect(facts["quorum"]).toBe("");
  });
});
