// A port that never completes a connection: a listener that never accepts, its backlog full.
import { readFile } from "node:fs/promises";
import { connect, type Socket } from "node:net";
import { Worker } from "node:worker_threads";
import { pause } from "../system-clock.js";

/** A port to which connecting never completes. */
export interface Blackhole extends AsyncDisposable {
  readonly host: "127.0.0.1";
  readonly port: number;
}

/** Two connections wait where the backlog is one: Linux drops the SYN of every further one. */
const backlog = 1;
const fits = backlog + 1;

// The thread listens and then never runs again, so nothing is ever accepted.
const listener = `
const { parentPort } = require("node:worker_threads");
const server = require("node:net").createServer();
server.listen({ port: 0, host: "127.0.0.1", backlog: ${backlog} }, () => {
  parentPort.postMessage(server.address().port);
  setImmediate(() => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0));
});
`;

/**
 * Opens such a port. Linux only (elsewhere an Error): it looks into /proc/net/tcp until the kernel itself says that the backlog is full, so
 * it does not depend on times. Connecting to it waits until the system gives up (about two minutes) or the listener goes.
 */
export async function blackholePort(): Promise<Blackhole> {
  if (process.platform !== "linux")
    throw new Error("blackholePort works on Linux only: other systems answer a full backlog.");
  const worker = new Worker(listener, { eval: true });
  const fillers: Socket[] = [];
  const dispose = async (): Promise<void> => {
    for (const socket of fillers) socket.destroy();
    await worker.terminate();
  };
  try {
    const port = await new Promise<number>((resolve, reject) => {
      worker.once("message", resolve);
      worker.once("error", reject);
    });
    for (let i = 0; i < fits; i++) fillers.push(connect(port, "127.0.0.1").on("error", () => undefined));
    while ((await waitingIn(port)) < fits) await pause(1);
    return { host: "127.0.0.1", port, [Symbol.asyncDispose]: dispose };
  } catch (error) {
    await dispose();
    throw error;
  }
}

/** How many connections the kernel holds that nobody has accepted: for a listener it stands as the receive queue. */
async function waitingIn(port: number): Promise<number> {
  const address = `0100007F:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const table = await readFile("/proc/net/tcp", "latin1");
  const line = table.split("\n").find((l) => l.includes(`: ${address} 00000000:0000 0A`));
  return Number.parseInt(/ 0A [0-9A-F]{8}:([0-9A-F]{8})/.exec(line ?? "")?.[1] ?? "0", 16);
}
