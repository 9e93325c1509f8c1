import { mkdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { Admission } from "./admission.js";
import { Engine } from "./engine.js";
import { engineArguments } from "./engine-config.js";
import { EmbeddedError } from "./errors.js";
import { Executor } from "./execution.js";
import { HttpFront } from "./http-front.js";
import { makeFolders } from "./make-folders.js";
import type { StartMessage } from "./messages.js";
import { NamedSessions } from "./named-sessions.js";
import { loadNative } from "./native.js";
import { engineDirectory, unwritable } from "./open-failure.js";
import { PipePool } from "./pipes.js";
import { newId } from "./prng.js";
import { QueryRunner } from "./query-runner.js";
import { RecentLog, type RecentQuery } from "./recent-log.js";
import { BodySpool } from "./spool.js";
import { systemClock, type ServerClock } from "./system-clock.js";

const waitingMax = 1000;
const recentMax = 1000;

/** The engine did not open its directory; the reason is in what this process has printed, which the parent reads. */
export class OpenFailure extends Error {
  override readonly name = "OpenFailure";
}

/** The server of this process: one, since the engine opens one directory per process. */
export type RunningServer = { readonly port: number; recent(): readonly RecentQuery[]; close(): Promise<void> };

/** Opens directory and port and serves. EmbeddedErrors as the package documents them. */
export async function startServer(o: StartMessage): Promise<RunningServer> {
  const front = new HttpFront();
  const port = await front.listen(o.port).catch((error: unknown) => {
    throw portError(error, o.port);
  });
  try {
    return await serve(o, front, port);
  } catch (error) {
    void front.close();
    throw error;
  }
}

async function serve(o: StartMessage, front: HttpFront, port: number): Promise<RunningServer> {
  const clock = systemClock;
  const engine = await openEngine(o, clock);
  // The engine's lock on its directory is ours from here on, so what lies in run/ is a dead predecessor's.
  const runDir = join(o.dataDir, "run");
  await rm(runDir, { recursive: true, force: true });
  await mkdir(runDir, { mode: 0o700 });
  const sessions = new NamedSessions(engine, clock);
  const log = new RecentLog(recentMax);
  const runner = new QueryRunner({
    engine,
    executor: new Executor(engine, await PipePool.create(runDir, o.maxConcurrentQueries)),
    sessions,
    admission: new Admission({ running: o.maxConcurrentQueries, waiting: waitingMax }),
    spool: new BodySpool(runDir),
    clock,
  });
  front.serve({ runner, log, password: o.password, timezone: await timezoneOf(engine), clock, newId });
  return {
    port,
    recent: () => log.list(),
    close: async () => {
      await front.close();
      await sessions.close();
      // While the directory is still locked: once it is not, run/ may be our successor's.
      await rm(runDir, { recursive: true, force: true });
      await engine.close();
    },
  };
}

async function openEngine(o: StartMessage, clock: ServerClock): Promise<Engine> {
  const native = loadNative();
  const directory = engineDirectory(o.dataDir);
  let args: string[];
  try {
    await makeFolders(directory);
    args = await engineArguments({ configDir: join(o.dataDir, "config"), durable: o.durable });
  } catch (error) {
    throw unwritable(o.dataDir, error);
  }
  try {
    return new Engine({ native, directory, arguments: args, clock });
  } catch (error) {
    throw new OpenFailure(String(error));
  }
}

async function timezoneOf(engine: Engine): Promise<string> {
  const session = engine.session();
  try {
    return Buffer.from((await session.execute("SELECT timezone()")).bytes)
      .toString("utf8")
      .trim();
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
