// Goal: slots, the log, options and the loading of the engine keep their rules.
import { describe, expect, it } from "vitest";
import { Admission } from "../../src/admission.js";
import { loadNative } from "../../src/native.js";
import { explainOpenFailure } from "../../src/open-failure.js";
import { checkOptions } from "../../src/options.js";
import { EmbeddedError } from "../../src/errors.js";
import { RecentLog, type RecentQuery } from "../../src/recent-log.js";

describe("admission", () => {
  const never = new AbortController().signal;

  it("lets as many in as there are slots, the others in order", async () => {
    const admission = new Admission({ running: 2, waiting: 10 });
    const [a, b] = [await admission.enter(never), await admission.enter(never)];
    const order: string[] = [];
    const c = admission.enter(never).then((slot) => (order.push("c"), slot));
    const d = admission.enter(never).then((slot) => (order.push("d"), slot));
    a.release();
    a.release();
    (await c).release();
    await d;
    expect(order).toEqual(["c", "d"]);
    b.release();
  });

  it("refuses when too many wait", async () => {
    const admission = new Admission({ running: 1, waiting: 1 });
    await admission.enter(never);
    void admission.enter(never);
    await expect(admission.enter(never)).rejects.toThrow("Code: 202.");
  });

  it("forgets who gave up, and loses no slot by it", async () => {
    const admission = new Admission({ running: 1, waiting: 5 });
    const first = await admission.enter(never);
    const quits = new AbortController();
    const quitter = admission.enter(quits.signal);
    const patient = admission.enter(never);
    quits.abort(new Error("gone"));
    await expect(quitter).rejects.toThrow("gone");
    first.release();
    (await patient).release();
    (await admission.enter(never)).release();
    await expect(admission.enter(AbortSignal.abort(new Error("before")))).rejects.toThrow("before");
  });
});

describe("the log of recent queries", () => {
  const entry: RecentQuery = {
    queryId: "q",
    query: "SELECT 1",
    settings: {},
    paramNames: [],
    database: "default",
    sessionId: null,
    userAgent: "",
    startedAtMs: 1,
    waitedMs: null,
    elapsedMs: 0,
    outcome: "running",
    errorCode: 0,
    errorText: "",
    readRows: 0,
    writtenRows: 0,
  };

  it("keeps the last ones, and changes of them only", () => {
    const log = new RecentLog(2);
    const changes = ["a", "b", "c"].map((queryId) => log.add({ ...entry, queryId }));
    changes[0]?.({ outcome: "failed" });
    changes[2]?.({ outcome: "finished", elapsedMs: 5 });
    expect(log.list().map((q) => [q.queryId, q.outcome, q.elapsedMs])).toEqual([
      ["b", "running", 0],
      ["c", "finished", 5],
    ]);
  });

  it("cuts long texts, also those that come later", () => {
    const log = new RecentLog(2);
    log.add({ ...entry, query: "x".repeat(100_000) })({ errorText: "y".repeat(100_000) });
    log.add(entry)({ query: "z".repeat(100_000) });
    for (const q of log.list()) expect(q.query.length + q.errorText.length).toBeLessThan(20_000);
  });
});

describe("options", () => {
  it("have defaults", () => {
    expect(checkOptions({})).toEqual({ port: 0, maxConcurrentQueries: 12, password: "", durable: false });
  });

  it.each([
    [{ port: -1 }],
    [{ port: 1.5 }],
    [{ port: 65_536 }],
    [{ maxConcurrentQueries: 65 }],
    [{ maxConcurrentQueries: NaN }],
    [{ dataDir: "" }],
  ])("out of range are refused: %j", (options) => {
    expect(() => checkOptions(options)).toThrow("[CONFIG_INVALID]");
  });
});

describe("the engine", () => {
  it("that cannot be loaded, or is another one, is named with what to do", () => {
    const missing = (): unknown => {
      throw new Error("no binding");
    };
    expect(() => loadNative(missing)).toThrow(/\[ENGINE_UNSUPPORTED\].*no binding/s);
    expect(() => loadNative(() => ({ CreateConnection: () => null }))).toThrow(
      /\[ENGINE_UNSUPPORTED\].*CloseConnection/s,
    );
  });

  it("that did not open is explained by what it printed", async () => {
    const error = new EmbeddedError("ENGINE_FAILED", "no");
    const explained = async (printed: string): Promise<string> =>
      (await explainOpenFailure(error, printed, "/nowhere/data")).message;
    expect(await explained("Code: 76. DB::Exception: Cannot lock file /nowhere/data/engine/status.")).toMatch(
      /^\[DIRECTORY_IN_USE\].*\/nowhere\/data /,
    );
    expect(await explained("filesystem error: Permission denied")).toMatch(/^\[DIRECTORY_UNWRITABLE\]/);
    expect(await explained("Code: 1. DB::Exception: Other.")).toMatch(/^\[ENGINE_FAILED\].*Other/);
  });
});
