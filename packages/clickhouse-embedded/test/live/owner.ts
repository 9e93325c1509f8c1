// A process that owns a server, for tests that kill it. Prints what the test needs, then waits to be killed.
import { startEmbeddedClickHouse } from "@holdfast/clickhouse-embedded";

const dataDir = process.argv[2];
const server = await startEmbeddedClickHouse(dataDir === undefined ? {} : { dataDir });
process.stdout.write(`${JSON.stringify({ url: server.url, pid: server.pid, dataDir: server.dataDir })}\n`);
