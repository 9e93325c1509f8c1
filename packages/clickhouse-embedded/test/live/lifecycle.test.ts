// Goal: a server starts, is found, ends and opens again as its handle says, whatever is done to it or its parent, and leaves nothing behind.
// Method: real processes, killed by their pid.
import { spawn, type ChildProcess } from "node:child_process";
import { existsSync, readdirSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { until } from "@holdfast-private/tests-machine";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import {
  EmbeddedError,
  startEmbeddedClickHouse,
  type EmbeddedClickHouse,
  type EmbeddedOptions,
} from "@holdfast/clickhouse-embedded";
import { clickhouseError, clientOf } from "./support.js";

let scratch = "";
let started: EmbeddedClickHouse[] = [];
const owners: ChildProcess[] = [];
beforeEach(async () => {
  scratch = await mkdtemp(join(tmpdir(), "holdfast-lifecycle-"));
});
afterEach(async () => {
  await Promise.all(started.map((server) => server.stop()));
  started = [];
  for (const owner of owners.splice(0)) owner.kill("SIGKILL");
  await rm(scratch, { recursive: true, force: true });
});

const start = async (o: EmbeddedOptions = {}): Promise<EmbeddedClickHouse> => {
  const server = await startEmbeddedClickHouse(o);
  started.push(server);
  return server;
};
const run = async (server: { url: string }, query: string): Promise<string> => {
  const r = await fetch(server.url, { method: "POST", body: query });
  const text = await r.text();
  if (!r.ok) throw new Error(text);
  return text;
};
const alive = (pid: number): boolean => {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
};
const failure = async (o: EmbeddedOptions): Promise<EmbeddedError> => {
  try {
    await start(o);
  } catch (error) {
    if (error instanceof EmbeddedError) return error;
    throw error;
  }
  throw new Error("the start was expected to fail");
};

/** What the handle of a server says whose process has ended, once it has noticed. */
async function exitOf(server: EmbeddedClickHouse): Promise<EmbeddedError> {
  let error: unknown = null;
  const ended = () =>
    server.recentQueries().then(
      () => false,
      (thrown: unknown) => ((error = thrown), true),
    );
  await until("the end of the server", ended);
  if (error instanceof EmbeddedError) return error;
  throw error;
}

/** A process that owns a server; with a directory for its temporary files. */
function startOwner(directory = tmpdir()) {
  const script = fileURLToPath(new URL("owner.ts", import.meta.url));
  const args = ["--conditions=@holdfast/source", "--import", import.meta.resolve("tsx"), script];
  const env = { ...process.env, TMPDIR: directory };
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"], env });
  owners.push(child);
  const line = new Promise<string>((resolve) => createInterface(child.stdout).once("line", resolve));
  return {
    child,
    started: line.then((text) => JSON.parse(text) as { url: string; pid: number; dataDir: string }),
  };
}

/** A port that is taken until `other` closes, and that the system gives nobody of itself meanwhile: it is below those for any port. */
async function listenOnAQuietPort(): Promise<{ other: Server; port: number }> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    const other = createServer();
    const error = await new Promise<Error | null>((resolve) => {
      other.once("error", resolve);
      other.listen(port, "127.0.0.1", () => resolve(null));
    });
    if (error === null) return { other, port };
  }
}

describe("a start", () => {
  it("without options serves a temporary directory, which stop removes", async () => {
    const server = await start();
    expect(server.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
    expect(await run(server, "SELECT 1")).toBe("1\n");
    await server.stop();
    await server.stop();
    expect(alive(server.pid)).toBe(false);
    expect(existsSync(server.dataDir)).toBe(false);
  });

  it("is disposed of", async () => {
    const server = await start();
    await server[Symbol.asyncDispose]();
    expect(alive(server.pid)).toBe(false);
  });

  it("keeps a directory of one's own, with what was in it", async () => {
    const dataDir = join(scratch, "made", "on the way & <so>");
    const first = await start({ dataDir });
    await run(first, "CREATE TABLE kept (a UInt8) ENGINE = MergeTree ORDER BY a");
    await run(first, "INSERT INTO kept VALUES (1)");
    await first.stop();
    const second = await start({ dataDir });
    expect(await run(second, "SELECT a FROM kept")).toBe("1\n");
    expect(readdirSync(join(dataDir, "run")).filter((name) => name.endsWith(".body"))).toEqual([]);
  });

  it("syncs inserts in durable mode only", async () => {
    const setting = "SELECT value FROM system.merge_tree_settings WHERE name = 'fsync_after_insert'";
    const durable = await start({ durable: true });
    expect(await run(durable, setting)).toBe("1\n");
    expect(await run(await start(), setting)).toBe("0\n");
  });

  it("has the defaults of a ClickHouse server", async () => {
    const server = await start();
    expect(
      await run(
        server,
        "SELECT getSetting('mutations_sync'), getSetting('implicit_select'), getSetting('max_execution_time')",
      ),
    ).toBe("0\tfalse\t0\n");
  });
});

describe("a start is refused with a reason", () => {
  it("for a directory that another server has open, in this process or another", async () => {
    const dataDir = join(scratch, "data");
    const server = await start({ dataDir });
    const error = await failure({ dataDir });
    expect(error.code).toBe("DIRECTORY_IN_USE");
    expect(error.message).toContain(dataDir);
    expect(error.message).toContain(String(server.pid));
    expect(await run(server, "SELECT 1")).toBe("1\n");
    await server.stop();
    await start({ dataDir });
  });

  it("for a directory that cannot be made or written", async () => {
    await writeFile(join(scratch, "file"), "");
    const error = await failure({ dataDir: join(scratch, "file", "data") });
    expect(error.code).toBe("DIRECTORY_UNWRITABLE");
    expect(error.message).toContain(join(scratch, "file", "data"));
    expect(error.message).toContain("dataDir");
    await mkdir(join(scratch, "data"));
    await writeFile(join(scratch, "data", "config"), "");
    expect((await failure({ dataDir: join(scratch, "data") })).code).toBe("DIRECTORY_UNWRITABLE");
  });

  // Red, and never ending, with mkdir's own `recursive`: Node makes the parent, which is there, again and again.
  it.runIf(process.platform === "linux")("for a directory below a folder that takes none", async () => {
    const error = await failure({ dataDir: "/proc/nope/x" });
    expect(error.code).toBe("DIRECTORY_UNWRITABLE");
    expect(error.message).toContain("/proc/nope/x");
  });

  it("for a TMPDIR in which no directory can be made", async () => {
    await writeFile(join(scratch, "file"), "");
    vi.stubEnv("TMPDIR", join(scratch, "file"));
    vi.stubEnv("TSX_DISABLE_CACHE", "1"); // tsx's own, which only sources need
    const error = await failure({}).finally(() => vi.unstubAllEnvs());
    expect(error.code).toBe("DIRECTORY_UNWRITABLE");
    expect(error.message).toContain(join(scratch, "file"));
    expect(error.message).toContain("set TMPDIR to a writable folder, or pass dataDir");
  });

  it("for a port that is taken", async () => {
    const { other, port } = await listenOnAQuietPort();
    const error = await failure({ port });
    expect(error.code).toBe("PORT_IN_USE");
    expect(error.message).toContain(String(port));
    await new Promise((resolve) => other.close(resolve));
    expect((await start({ port })).url).toBe(`http://127.0.0.1:${String(port)}`);
  });

  it("for options out of range, and by its signal", async () => {
    expect((await failure({ port: 70_000 })).code).toBe("CONFIG_INVALID");
    expect((await failure({ maxConcurrentQueries: 0 })).message).toContain("maxConcurrentQueries is 0");
    expect((await failure({ dataDir: " " })).code).toBe("CONFIG_INVALID");
    expect((await failure({ signal: AbortSignal.abort() })).code).toBe("CANCELED");
    const later = new AbortController();
    const pending = failure({ signal: later.signal });
    setImmediate(() => later.abort());
    expect((await pending).code).toBe("CANCELED");
  });
});

describe("a password", () => {
  it("is asked for, in every way that the client gives it", async () => {
    const server = await start({ password: "s3cret: ü" });
    const ok = clientOf(server.url, { password: "s3cret: ü" });
    expect(await (await ok.query({ query: "SELECT 1", format: "JSONEachRow" })).json()).toEqual([{ "1": 1 }]);
    for (const config of [
      {},
      { password: "wrong" },
      { username: "someone", password: "s3cret: ü" },
      { access_token: "t" },
    ]) {
      const error = await clickhouseError(clientOf(server.url, config).query({ query: "SELECT 1" }));
      expect(error).toMatchObject({ code: "516", type: "AUTHENTICATION_FAILED" });
      expect(error.message).toContain("password");
      expect(error.message).not.toContain("s3cret");
    }
    const headers = { "x-clickhouse-user": "default", "x-clickhouse-key": Buffer.from("s3cret: ü").toString("latin1") };
    expect(
      (await fetch(`${server.url}/?query=SELECT+1`, { headers: { ...headers, "x-clickhouse-key": "wrong" } })).status,
    ).toBe(403);
    expect(
      (await fetch(`${server.url}/?query=SELECT+1&user=default&password=${encodeURIComponent("s3cret: ü")}`)).status,
    ).toBe(200);
    expect((await fetch(`${server.url}/ping`)).status).toBe(200);
    // Other users of the machine can read arguments and environment.
    if (process.platform === "linux") {
      expect(await readFile(`/proc/${String(server.pid)}/cmdline`, "utf8")).not.toContain("s3cret");
      expect(await readFile(`/proc/${String(server.pid)}/environ`, "utf8")).not.toContain("s3cret");
    }
    expect(JSON.stringify(await server.recentQueries())).not.toContain("s3cret");
  });
});

describe("the end of a process", () => {
  it("killed: its directory opens again with all that was acknowledged, and the handle says so", async () => {
    const dataDir = join(scratch, "data");
    const server = await start({ dataDir });
    await run(server, "CREATE TABLE acked (a UInt64) ENGINE = MergeTree ORDER BY a");
    let acknowledged = 0;
    const inserting = (async () => {
      for (;;) {
        await run(server, `INSERT INTO acked VALUES (${String(acknowledged)})`);
        acknowledged++;
      }
    })().catch((error: unknown) => error);
    await until("20 inserts", () => acknowledged >= 20);
    process.kill(server.pid, "SIGKILL");
    await inserting;
    const gone = await exitOf(server);
    expect(gone.code).toBe("ENGINE_EXITED");
    expect(gone.message).toContain(`start another one on ${dataDir}`);
    await server.stop();
    const again = await start({ dataDir });
    const [count, distinct] = (await run(again, "SELECT count(), uniqExact(a) FROM acked"))
      .trim()
      .split("\t")
      .map(Number);
    // The one under way when the process was killed may be there or not.
    expect(count).toBe(distinct);
    expect(count).toBeGreaterThanOrEqual(acknowledged);
    expect(count).toBeLessThanOrEqual(acknowledged + 1);
  });

  it("killed, with a temporary directory: its data is gone, and the handle says so", async () => {
    const server = await start();
    process.kill(server.pid, "SIGKILL");
    const gone = await exitOf(server);
    expect(gone.code).toBe("ENGINE_EXITED");
    // Nobody is sent to a directory that is not there.
    expect(gone.message).not.toContain(server.dataDir);
    expect(gone.message).toMatch(
      /its data was in a temporary directory and is gone with it; start another one, with dataDir/,
    );
    await until("the end of its directory", () => !existsSync(server.dataDir));
  });

  it("of the parent, by SIGKILL, takes the server and its temporary directory along, also amid queries and inserts", async () => {
    const owner = startOwner();
    const server = await owner.started;
    await run(server, "CREATE TABLE busy (a UInt64) ENGINE = MergeTree ORDER BY a");
    const query = run(server, "SELECT count() FROM system.numbers").catch((error: unknown) => error);
    // A part for each 1000 rows: the engine makes files until its last moment.
    const settings = "max_block_size = 1000, min_insert_block_size_rows = 1000, min_insert_block_size_bytes = 0";
    const insert = run(server, `INSERT INTO busy SELECT number FROM system.numbers SETTINGS ${settings}`).catch(
      (error: unknown) => error,
    );
    const rows = async () => Number(await run(server, "SELECT count() FROM busy"));
    await until("rows of the insert", async () => (await rows()) > 0);
    owner.child.kill("SIGKILL");
    await until("the end of the server", () => !alive(server.pid));
    await until("the end of its directory", () => !existsSync(server.dataDir));
    expect(await query).toBeInstanceOf(Error);
    expect(await insert).toBeInstanceOf(Error);
  });

  it("of the parent while the server starts leaves no directory behind", async () => {
    const owner = startOwner(scratch);
    const temporary = () => readdirSync(scratch).filter((name) => name.startsWith("holdfast-clickhouse-"));
    await until("a temporary directory", () => temporary().length === 1);
    owner.child.kill("SIGKILL");
    await until("the end of its directory", () => temporary().length === 0);
  });

  it("by SIGTERM, and then of the parent, leaves no directory behind", async () => {
    const owner = startOwner();
    const server = await owner.started;
    process.kill(server.pid, "SIGTERM");
    await until("the end of the server", () => !alive(server.pid));
    owner.child.kill("SIGKILL");
    await until("the end of its directory", () => !existsSync(server.dataDir));
  });

  it("by Ctrl-C is the parent's business", async () => {
    const server = await start();
    process.kill(server.pid, "SIGINT");
    expect(await run(server, "SELECT 1")).toBe("1\n");
  });

  it("stops in time while queries run and a client stalls", async () => {
    const server = await start();
    const endless = run(server, "SELECT count() FROM system.numbers").catch((error: unknown) => error);
    const stalled = await fetch(server.url, { method: "POST", body: "SELECT number FROM system.numbers" });
    await until("two queries", async () => Number(await run(server, "SELECT count() FROM system.processes")) >= 3);
    await server.stop();
    expect(await endless).toBeInstanceOf(Error);
    expect(await stalled.text().catch((error: unknown) => error)).toBeInstanceOf(Error);
    expect(alive(server.pid)).toBe(false);
  });
});
