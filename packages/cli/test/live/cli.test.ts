// Goal: the command works as a person uses it, and each wrong input is one clear line and exit code 1.
// Method: one demo with --stay, in a process of its own, serves the questions; it is stopped by Ctrl-C at the end, as a person would. Exit code,
// streams, and that a command which has answered ends, are shown by processes: one each of status, search and get, and one that fails.
import { createServer } from "node:http";
import { cpSync, copyFileSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClient } from "@clickhouse/client";
import { startEmbeddedClickHouse } from "@holdfast/clickhouse-embedded";
import { SchemaLease } from "@holdfast/lease-core";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { holding } from "./holding.js";
import { holdfast, holdfastProcess, patient, Running, tempDir, type Ran } from "./helpers.js";

function refused(ran: Ran, message: RegExp): void {
  expect(ran.code).toBe(1);
  expect(ran.err).toMatch(/^error: [^\n]+\n$/);
  expect(ran.err).toMatch(message);
  expect(ran.out).not.toMatch(/verified/);
}

describe("on the catalog of a demo", () => {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-cli-demo-"));
  let demo: Running;
  let url: string;
  const withStore = (...argv: string[]): string[] => [
    ...argv,
    "--catalog",
    url,
    "--store",
    `fs:${join(dir, "objects")}`,
    ...patient,
  ];

  beforeAll(async () => {
    demo = new Running(["demo", "--dir", dir, "--records", "300", "--stay"]);
    [, url = ""] = await demo.prints(/status --catalog (http:\/\/\S+)\n.*search/s);
  });
  afterAll(async () => {
    demo.interrupt();
    const ran = await demo.end();
    rmSync(dir, { recursive: true, force: true });
    expect(ran.out).toContain("verified 300 of 300 records\n");
    expect(ran.err).toBe("");
    expect(ran.code).toBe(0);
  });

  it("status: snapshot, records, packs and lease", async () => {
    const ran = await holdfastProcess(["status", "--catalog", url, ...patient]);
    expect(ran).toMatchObject({ code: 0, err: "" });
    expect(ran.out).toMatch(/catalog +tensor in database default at http/);
    expect(ran.out).toMatch(/snapshot +version \d+, published [\d.]+ (?:ms|s|min|h) ago/);
    expect(ran.out).toMatch(/records +300\n/);
    expect(ran.out).toMatch(/packs +\d+, 4\.\d+ MB, of 1 writer\n/);
    expect(ran.out).toMatch(/^ {2}lease +free for [\d.]+ (?:ms|s|min|h); last held by \S+ \(term \d+\)$/m);
    const json = JSON.parse((await holdfast(["status", "--catalog", url, "--json", ...patient])).out) as object;
    expect(json).toMatchObject({ catalog: "tensor", records: 300, writers: 1 });
  });

  it("SL-06 status: the schema lease, released, absent, held under an odd name and lapsed, each as its row has it", async () => {
    const client = createClient({ url });
    onTestFinished(() => client.close());
    const table = "holdfast_schema_lease";
    const status = ["status", "--catalog", url, ...patient];
    const shown = async (): Promise<{ line: string; report: object }> => {
      const { out } = await holdfast(status);
      const { schemaLease } = JSON.parse((await holdfast([...status, "--json"])).out) as { schemaLease: object };
      return { line: /^ {2}schema lease +(.*)$/m.exec(out)?.[1] ?? out, report: schemaLease };
    };
    const write = (acquired_at_ms: number, row: { holder: string; expires_at_ms: number }) =>
      client.insert({ table, values: [{ lock_name: "tensor", acquired_at_ms, ...row }], format: "JSONEachRow" });
    const ago = String.raw`[\d.]+ (?:ms|s|min|h)`;

    // The demo's service has installed the catalog under it.
    const query = `SELECT holder FROM ${table} FINAL WHERE lock_name = 'tensor'`;
    const [row] = await (await client.query({ query, format: "JSONEachRow" })).json<{ holder: string }>();
    const installed = await shown();
    expect(installed.report).toMatchObject({ state: "released", holder: row?.holder });
    expect(installed.line).toMatch(new RegExp(`^free for ${ago}; released by ${String(row?.holder)}$`));

    await client.command({ query: `DROP TABLE ${table} SYNC` });
    expect(await shown()).toMatchObject({ line: "free; the table does not exist", report: { state: "no-table" } });
    await new SchemaLease({ client, name: "tensor" }).createTable();
    expect(await shown()).toMatchObject({ line: "free; no claim is recorded", report: { state: "unclaimed" } });

    const now = Date.now();
    const odd = { holder: `it's "pod"\n\u001b[31m-${"Größe".repeat(40)}`, expires_at_ms: now + 7_100_000 };
    await write(now, odd);
    const held = await shown();
    expect(held.report).toMatchObject({ state: "held", holder: odd.holder, expiresAtMs: odd.expires_at_ms });
    const onOneLine = `it's "pod"??[31m-${"Größe".repeat(40)}`;
    expect(held.line).toMatch(/ for another \d+ min unless released$/);
    expect(held.line.startsWith(`held by ${onOneLine} for another`)).toBe(true);

    const killed = { holder: "killed/1a2b3c4d", expires_at_ms: now - 3_600_000 };
    await write(now + 1, killed);
    const lapsed = await shown();
    expect(lapsed.report).toMatchObject({ state: "lapsed", holder: killed.holder, expiresAtMs: killed.expires_at_ms });
    expect(lapsed.line).toMatch(new RegExp(`^free for ${ago}; lapsed, and not released by killed/1a2b3c4d$`));
  });

  it("search: a table for people, JSON lines for programs, pages by cursor", async () => {
    const table = await holdfastProcess(withStore("search", "--where", "layer_number=3", "--where", "step_number<100"));
    expect(table.code).toBe(0);
    expect(table.out.trimEnd().split("\n")).toHaveLength(1 + 9); // steps 3, 15, … 99
    expect(table.err).toMatch(/^9 records of snapshot \d+\n$/);

    const first = await holdfast(withStore("search", "--where", "hook_name=mlp", "--limit", "100", "--json"));
    const [, version = "", cursor = ""] = /--snapshot (\d+) --cursor (\S+)\n$/.exec(first.err) ?? [];
    const argv = [
      "search",
      "--where",
      "hook_name=mlp",
      "--limit",
      "100",
      "--json",
      "--snapshot",
      version,
      "--cursor",
      cursor,
    ];
    const second = await holdfast(withStore(...argv));
    expect(second.err).toBe(`50 records of snapshot ${version}\n`);
    const lines = `${first.out}${second.out}`.trimEnd().split("\n");
    const steps = lines.map((line) =>
      Number((JSON.parse(line) as { fields: { step_number: string } }).fields.step_number),
    );
    expect([...steps].sort((a, b) => a - b)).toEqual(Array.from({ length: 150 }, (_, i) => 2 * i + 1));
  });

  it("get: the payload, to the byte; a record that is not there leaves no file", async () => {
    const found = await holdfast(withStore("search", "--where", "step_number=7", "--json"));
    const { captureId } = JSON.parse(found.out) as { captureId: string };
    const file = join(tempDir(), "tensor.bin");
    expect(await holdfastProcess(withStore("get", captureId, "-o", file))).toMatchObject({ code: 0, out: "" });
    const payload = readFileSync(file);
    expect(payload.length).toBe(64 * 64 * 4);
    expect(payload.readUInt32LE(0)).toBe(7);

    const nothing = join(tempDir(), "nothing.bin");
    refused(
      await holdfastProcess(withStore("get", "no-such-id", "-o", nothing)),
      /\[RECORD_NOT_FOUND\] snapshot \d+ has no record no-such-id/,
    );
    expect(() => readFileSync(nothing)).toThrow("ENOENT");
    refused(
      await holdfast(withStore("get", captureId, "-o", "/no/such/folder/x")),
      /\[FILE_UNWRITABLE\] cannot write \/no\/such\/folder\/x/,
    );
  });

  it("get: a payload that was changed in the store is refused, no file is written", async () => {
    const objects = join(tempDir(), "objects");
    const found = await holdfast(withStore("search", "--where", "step_number=9", "--json"));
    const { captureId, pack } = JSON.parse(found.out) as { captureId: string; pack: { key: string; storeId: string } };
    const file = join(tempDir(), "tensor.bin");
    expect((await holdfast(withStore("get", captureId, "-o", file))).code).toBe(0);
    const payload = readFileSync(file);
    rmSync(file);

    cpSync(join(dir, "objects"), objects, { recursive: true });
    const copy = join(objects, `${pack.key}@obj`); // the store's own file of the object
    const bytes = readFileSync(copy);
    const at = bytes.indexOf(payload);
    expect(at).toBeGreaterThan(0);
    bytes[at + 1000] = (bytes[at + 1000] ?? 0) ^ 1;
    writeFileSync(copy, bytes);
    const flags = ["--catalog", url, "--store", `fs:${objects}`, "--store-id", pack.storeId, ...patient];
    refused(await holdfast(["get", captureId, "-o", file, ...flags]), /\[RECORD_CORRUPT\]/);
    expect(() => readFileSync(file)).toThrow("ENOENT");
  });

  it("inspect: a pack by its key and as a file; a truncated and a newer one are refused", async () => {
    const found = await holdfast(withStore("search", "--limit", "1", "--json"));
    const { pack } = JSON.parse(found.out) as { pack: { key: string } };
    const byKey = await holdfast(["inspect", pack.key, "--store", `fs:${join(dir, "objects")}`], { cwd: tempDir() });
    expect(byKey).toMatchObject({ code: 0, err: "" });
    expect(byKey.out).toMatch(/verified (\d+) of \1 records, header, index and trailer\n$/);

    const file = join(tempDir(), "copy.hfpack");
    const ofTheStore = join(dir, "objects", `${pack.key}@obj`);
    copyFileSync(ofTheStore, file);
    expect((await holdfast(["inspect", file])).out).toMatch(/verified (\d+) of \1 records/);
    truncateSync(file, 100_000);
    const truncated = await holdfast(["inspect", file]);
    refused(truncated, /\[PACK_TRUNCATED\]/);
    expect(truncated.out).toMatch(/intact +\d+ records in the first [\d,]+ of 100,000 bytes/);

    copyFileSync(ofTheStore, file);
    const newer = readFileSync(file);
    newer[4] = 200;
    writeFileSync(file, newer);
    refused(await holdfast(["inspect", file]), /\[PACK_VERSION_UNSUPPORTED\].*version 200/);
  });

  it("an unknown catalog, an unknown database, a snapshot from the future: named", async () => {
    const other = join(tempDir(), "schema.json");
    writeFileSync(other, JSON.stringify({ name: "nobody", version: 1, fields: { a: "String" }, orderBy: ["a"] }));
    const status = ["status", "--catalog", url, ...patient];
    refused(await holdfast([...status, "--schema", other]), /\[CATALOG_NOT_FOUND\].*nobody/);
    refused(await holdfast([...status, "--database", "nowhere"]), /\[CATALOG_NOT_FOUND\].*nowhere/);
    refused(await holdfast(withStore("search", "--snapshot", "999999")), /\[SNAPSHOT_NOT_FOUND\].*999999/);
    writeFileSync(other, JSON.stringify({ name: "nobody", version: 1, fields: { a: "Decimal(3)" }, orderBy: ["a"] }));
    refused(await holdfast([...status, "--schema", other]), /\[SCHEMA_INVALID\].*Decimal\(3\)/);
  });

  // Red without the signal of any of the requests: the command waits for the bound of ten minutes.
  it("Ctrl-C ends status, search and get at each of their requests to ClickHouse: exit code 130", async () => {
    const found = await holdfast(withStore("search", "--limit", "1", "--json"));
    const { captureId } = JSON.parse(found.out) as { captureId: string };
    const file = join(tempDir(), "payload");
    expect(await interruptedAtEach(url, ["status", ...patient])).toBeGreaterThanOrEqual(5);
    expect(await interruptedAtEach(url, withStore("search"))).toBeGreaterThanOrEqual(3);
    expect(await interruptedAtEach(url, withStore("get", captureId, "-o", file))).toBeGreaterThanOrEqual(3);
  });

  it("a second engine on the same directory, and on the same port, are refused by name", async () => {
    refused(await holdfast(["demo", "--dir", dir]), /\[DIRECTORY_IN_USE\]/);
    refused(await holdfast(["demo", "--port", new URL(url).port]), /\[PORT_IN_USE\]/);
  });
});

/** Runs a command with its first request held, then its second, and so on until it has no more. Answers how many it has. */
async function interruptedAtEach(url: string, argv: readonly string[]): Promise<number> {
  for (let nth = 1; ; nth += 1) {
    const stop = new AbortController();
    const server = await holding(url, { nth, onHeld: () => stop.abort(new Error("stopped by SIGINT")) });
    onTestFinished(server.close);
    // Of two --catalog the last counts.
    const ran = await holdfast([...argv, "--catalog", server.url], { signal: stop.signal });
    if (!stop.signal.aborted) {
      expect(ran.code).toBe(0);
      return nth - 1;
    }
    expect(ran, `${argv.join(" ")}, request ${nth.toString()}`).toEqual({ code: 130, out: "", err: "" });
  }
}

describe("a ClickHouse that cannot be used", () => {
  it("a wrong password: refused, and no password is printed", async () => {
    const engine = await startEmbeddedClickHouse({ password: "correct horse" });
    onTestFinished(() => engine.stop());
    const argv = ["status", "--catalog", engine.url, ...patient];
    const wrong = await holdfast(argv, { env: { HOLDFAST_PASSWORD: "hunter2" } });
    refused(wrong, /password|authentication/i);
    expect(wrong.err).not.toContain("hunter2");

    const file = join(tempDir(), "password");
    writeFileSync(file, "correct horse\n");
    refused(await holdfast([...argv, "--password-file", file]), /\[CATALOG_NOT_FOUND\]/); // it is let in, and finds nothing
  });

  it("one that is not there: refused within the bound, with its address", async () => {
    refused(await holdfast(["status", "--catalog", "http://127.0.0.1:9"]), /127\.0\.0\.1:9/);
  });

  it("one that never answers: refused when --timeout is over, naming it", async () => {
    const silent = createServer(() => undefined).listen(0, "127.0.0.1");
    onTestFinished(() => {
      silent.close().closeAllConnections();
    });
    await new Promise((ready) => silent.once("listening", ready));
    const { port } = silent.address() as { port: number };
    const ran = await holdfast(["status", "--catalog", `http://127.0.0.1:${port.toString()}`, "--timeout", "700"]);
    refused(ran, /700 ms/);
  });
});
