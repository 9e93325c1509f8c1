import { mkdirSync } from "node:fs";
import { EmbeddedError } from "./errors.js";
import type { FromChild, StartMessage, ToChild } from "./messages.js";
import { removeAfterEnd } from "./remove-after-end.js";
import { OpenFailure, startServer, type RunningServer } from "./server.js";

// The process that holds the engine. It lives as long as the channel to its parent: when that closes, even by SIGKILL of the parent,
// it ends at once. What was acknowledged is on disk or with the kernel by then.

const send = (message: FromChild): void => void process.send?.(message);
let server: RunningServer | null = null;

function die(): never {
  process.kill(process.pid, "SIGKILL");
  throw new Error("unreachable");
}

async function start(message: StartMessage): Promise<void> {
  try {
    if (temporaryDirectory !== undefined) makeTemporary(temporaryDirectory);
    server = await startServer(message);
    send({ type: "ready", port: server.port });
  } catch (error) {
    // The other side makes an error of it again, which puts the code before the text.
    const known = error instanceof EmbeddedError ? error : new EmbeddedError("ENGINE_FAILED", String(error));
    send({
      type: "failed",
      code: known.code,
      message: known.message.slice(`[${known.code}] `.length),
      opening: error instanceof OpenFailure,
    });
  }
}

function makeTemporary(directory: string): void {
  try {
    mkdirSync(directory, { mode: 0o700 });
  } catch (error) {
    throw new EmbeddedError(
      "DIRECTORY_UNWRITABLE",
      `no temporary directory can be made (${(error as Error).message}); set TMPDIR to a writable folder, or pass dataDir`,
    );
  }
}

async function stop(): Promise<void> {
  await server?.close();
  process.exit(0);
}

// This process makes its temporary directory, once what removes it is there: were it made by the parent, a parent that is killed a moment
// later would leave it behind.
const [temporaryDirectory] = process.argv.slice(2);
if (temporaryDirectory !== undefined) removeAfterEnd(temporaryDirectory);
process.on("disconnect", die);
// A terminal sends Ctrl-C to the whole group; the parent decides, since it may still need the server to finish.
process.on("SIGINT", () => undefined);
process.on("SIGTERM", () => void stop());
process.on("message", (message: ToChild) => {
  switch (message.type) {
    case "start":
      void start(message);
      break;
    case "recent":
      send({ type: "recent", id: message.id, queries: server?.recent() ?? [] });
      break;
    case "stop":
      void stop();
      break;
  }
});
if (process.connected) send({ type: "up" });
else die();
