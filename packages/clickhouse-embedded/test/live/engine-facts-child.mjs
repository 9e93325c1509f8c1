// Runs in a process of its own (the engine must not live in a test runner) and prints what the engine does, as JSON. No server, no client.
import { execFileSync } from "node:child_process";
import { constants, mkdtempSync, openSync, closeSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Socket } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";

process.env.UV_THREADPOOL_SIZE = "16";
const require = createRequire(import.meta.url);
const chdb = dirname(require.resolve("chdb/package.json"));
const native = require(join(chdb, "dist", "loader.js")).loadNative();
const directory = mkdtempSync(join(tmpdir(), "holdfast-facts-"));
const engine = join(directory, "engine");
function end() {
  rmSync(directory, { recursive: true, force: true });
  process.kill(process.pid, "SIGKILL");
}
// The test's process holds the other end of our input: when that is gone, so are we.
process.stdin.once("end", end).resume();
// A profile of a config file holds for the whole engine.
const users = join(directory, "users.xml");
writeFileSync(
  users,
  "<clickhouse><profiles><default><max_execution_time>7</max_execution_time></default></profiles><quotas><default></default></quotas>" +
    "<users><default><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default></users></clickhouse>",
);
const config = join(directory, "config.xml");
writeFileSync(
  config,
  `<clickhouse><user_directories><users_xml><path>${users}</path></users_xml></user_directories></clickhouse>`,
);
const open = () => native.CreateConnection(engine, [`--config-file=${config}`]);
const control = open();
const run = async (sql, connection = control, format = "TabSeparated") => {
  try {
    const r = await native.QueryAsyncConnection(connection, sql, format);
    return Buffer.from(r.bytes).toString();
  } catch (error) {
    return error.message;
  }
};
const facts = {};

// 1. Inline data ends at an empty line, and what follows is run.
await run("CREATE TABLE victim (a UInt8) ENGINE = Memory");
await run("CREATE TABLE t (a UInt8) ENGINE = Memory");
await native.InsertRawAsyncConnection(
  control,
  "INSERT INTO t FORMAT JSONEachRow",
  Buffer.from('{"a":1}\n\nDROP TABLE victim'),
  false,
);
facts.inlineDataRunsAsSql = (await run("EXISTS TABLE victim")) === "0\n";

// 2. The engine's parser counts statements.
facts.counts = [];
for (const sql of [
  "SELECT 1",
  "SELECT 1; SELECT 2",
  "SELECT ';'",
  "INSERT INTO t VALUES (3); DROP TABLE t",
  "",
  "SELEC",
]) {
  facts.counts.push((await native.DurableClassifyAsync(control, sql, null)).statementCount);
}

// 3. Each chunk of a stream is a document of its own; INTO OUTFILE is one document.
const stream = native.StreamQuery(control, "SELECT number FROM numbers(200000)", "CSVWithNames");
let headers = 0;
for (;;) {
  const chunk = await native.StreamFetch(stream);
  if (chunk.done) break;
  headers += Buffer.from(chunk.bytes).toString().split('"number"').length - 1;
}
native.StreamCancel(stream);
facts.streamedHeaders = headers;
const pipe = join(directory, "pipe");
execFileSync("mkfifo", [pipe]);
const reading = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
const writing = openSync(pipe, constants.O_WRONLY | constants.O_NONBLOCK);
const socket = new Socket({ fd: reading, readable: true, writable: false });
const written = run(
  `SELECT number FROM numbers(200000)\nINTO OUTFILE '${pipe}' TRUNCATE`,
  control,
  "CSVWithNames",
).then(() => closeSync(writing));
let text = "";
for await (const chunk of socket) text += chunk;
await written;
facts.pipedHeaders = text.split('"number"').length - 1;
facts.pipedLines = text.split("\n").length - 1;

// 7. DEFAULT is the compiled default, not the profile's: a session cannot be given back to the next request.
await run("SET max_execution_time = 5");
const setting = "SELECT getSetting('max_execution_time')";
facts.changed = await run(setting);
await run("SET max_execution_time = DEFAULT");
facts.byDefault = await run(setting);
facts.anotherSession = await run(setting, open());

// 8. KILL by log_comment from another session ends a query.
const victim = open();
await run("SET log_comment = 'the-victim'", victim);
const ended = run("SELECT count() FROM system.numbers", victim);
let settled = false;
void ended.then(() => (settled = true));
while (!settled) await run("KILL QUERY WHERE Settings['log_comment'] = 'the-victim' ASYNC");
facts.killed = await ended;
facts.usableAfterKill = await run("SELECT 1", victim);

// The entry that reads a file tells how many rows were written.
const body = join(directory, "body");
writeFileSync(body, "1\n2\n3\n");
facts.fromFile = (
  await native.InsertRawAsyncConnection(
    control,
    `INSERT INTO t FROM INFILE '${body}' COMPRESSION 'none' FORMAT CSV`,
    Buffer.alloc(0),
    false,
  )
).rowsWritten;
facts.fromSelect = (
  await native.InsertRawAsyncConnection(control, "INSERT INTO t SELECT 1 WHERE 0", Buffer.alloc(0), false)
).rowsWritten;
facts.version = (await run("SELECT version()")).trim();
facts.quorum = await run("INSERT INTO t SETTINGS insert_quorum = 2 VALUES (9)");
facts.package = JSON.parse(readFileSync(join(chdb, "package.json"), "utf8")).version;

process.stdout.write(JSON.stringify(facts), end);
