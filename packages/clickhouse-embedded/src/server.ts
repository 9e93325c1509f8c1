import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Admission } from "./admission.js";
import { Engine } from "./engine.js";
import { engineArguments } from "./engine-config.js";
import { EmbeddedError } from "./errors.js";
import { HttpFront } from "./http-front.js";
import type { StartMessage } from "./messages.js";
import { NamedSessions } from "./named-sessions.js";
import { loadNative } from "./native.js";
import { PipePool } from "./pipes.js";
import { newId } from "./prng.js";
import { QueryRunner } from "./query-runner.js";
import { RecentLog, type RecentQuery } from "./recent-log.js";
import { BodySpool } from "./spool.js";
import { systemClock } from "./system-clock.js";

const waitingMax = 1000;
const recentMax = 1000;

/** The server of this process: one, since the engine opens one directory per process. */
export type RunningServer = { readonly port: number; recent(): readonly RecentQuery[]; close(): Promise<void> };

/** Opens directory and port and serves. EmbeddedErrors as the package documents them. */
export async function startServer(o: StartMessage): Promise<RunningServer> {
  const front = new HttpFront();
  const port = await front.listen(o.port).catch((error: unknown) => {
    throw portError(error, o.port);
  });
  try {
    const native = loadNative();
    const engineDir = join(o.dataDir, "engine");
    const runDir = join(o.dataDir, "run");
    await mkdir(engineDir, { recursive: true }).catch((error: unknown) => {
      throw directoryError(error, o.dataDir);
    });
    const clock = systemClock;
    let engine: Engine;
    try {
      engine = new Engine({ native, directory: engineDir, arguments: await engineArguments(o), clock });
    } catch (error) {
      throw await openError(error, o.dataDir, engineDir);
    }
    // The engine's lock on its directory is ours from here on, so what lies in run/ is a dead predecessor's.
    await rm(runDir, { recursive: true, force: true });
    await mkdir(runDir, { mode: 0o700 });
    const pipes = await PipePool.create(runDir, o.maxConcurrentQueries);
    const timezone = Buffer.from(await timezoneOf(engine))
      .toString("utf8")
      .trim();
    const sessions = new NamedSessions(engine, clock);
    const log = new RecentLog(recentMax);
    const runner = new QueryRunner({
      engine,
      sessions,
      admission: new Admission({ running: o.maxConcurrentQueries, waiting: waitingMax }),
      pipes,
      spool: new BodySpool(runDir),
      clock,
      newId,
    });
    front.serve({ runner, log, password: o.password, timezone, clock, newId });
    return {
      port,
      recent: () => log.list(),
      close: async () => {
        front.close();
        await sessions.close();
        await engine.close();
        await rm(runDir, { recursive: true, force: true });
      },
    };
  } catch (error) {
    front.close();
    throw error;
  }
}

async function timezoneOf(engine: Engine): Promise<Uint8Array> {
  const session = engine.session();
  try {
    return (await session.execute("SELECT timezone()")).bytes;
  } finally {
    await session.close();
  }
}

function portError(error: unknown, port: number): EmbeddedError {
  const code = (error as NodeJS.ErrnoException).code;
  if (code === "EADDRINUSE" || code === "EACCES") {
    return new EmbeddedError(
      "PORT_IN_USE",
      `port ${port} of 127.0.0.1 cannot be used (${code}); choose another one, or port: 0 for any that is free`,
      { cause: error },
    );
  }
  return new EmbeddedError("ENGINE_FAILED", `cannot listen on 127.0.0.1:${port}: ${String(error)}`, { cause: error });
}

function directoryError(error: unknown, dataDir: string): EmbeddedError {
  return new EmbeddedError(
    "DIRECTORY_UNWRITABLE",
    `the data directory ${dataDir} cannot be created or written (${(error as NodeJS.ErrnoException).code ?? String(error)}); ` +
      `give dataDir a directory that this user may write, or leave it out for a temporary one`,
    { cause: error },
  );
}

async function openError(error: unknown, dataDir: string, engineDir: string): Promise<EmbeddedError> {
  const text = error instanceof Error ? error.message : String(error);
  if (/Cannot lock file|already running/.test(text)) {
    const { readFile } = await import("node:fs/promises");
    const status = await readFile(join(engineDir, "status"), "utf8").catch(() => "");
    const pid = /PID: (\d+)/.exec(status)?.[1];
    return new EmbeddedError(
      "DIRECTORY_IN_USE",
      `the data directory ${dataDir} is open in another process${pid === undefined ? "" : ` (pid ${pid})`}; ` +
        `stop that one, connect to it by its url, or use another dataDir`,
      { cause: error },
    );
  }
  if (/Permission denied|EACCES|EROFS|Read-only/i.test(text)) return directoryError(error, dataDir);
  return new EmbeddedError("ENGINE_FAILED", `the engine could not open ${dataDir}: ${text}`, { cause: error });
}
