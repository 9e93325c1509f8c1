// A server in a process of its own, so that no loop of the test's stands between an arrival and its note. Times are the
// system's monotonic clock, which all processes of a machine share.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { until } from "@holdfast-private/tests-machine";

export interface Arrival {
  /** Ms of the system's monotonic clock, when the first bytes of the request were read. */
  readonly atMs: number;
  readonly target: string;
}

export interface OwnProcessServer extends AsyncDisposable {
  readonly port: number;
  readonly arrivals: readonly Arrival[];
  /** Answers the first request, where that waits for it. */
  answerFirst(): void;
  /** Stops the process: its system completes connections as far as the backlog goes, two, and drops what asks for more. Linux. */
  stop(): Promise<void>;
  resume(): void;
}

/** Now, by the clock of {@link Arrival}. */
export const sharedNowMs = (): number => Number(process.hrtime.bigint()) / 1e6;

const program = (firstWhenAsked: boolean): string => `
const now = () => Number(process.hrtime.bigint()) / 1e6;
let answered = 0;
const server = require("node:net").createServer((socket) => {
  let atMs = 0, text = "";
  socket.setNoDelay(true).on("error", () => undefined).on("data", (bytes) => {
    if (text === "") atMs = now();
    text += bytes;
    // A chunked body ends with an empty chunk; a body of a known length is there as a whole.
    const [head, body] = text.split("\\r\\n\\r\\n");
    const length = /content-length: (\\d+)/i.exec(head)?.[1];
    const whole = length === undefined ? text.endsWith("0\\r\\n\\r\\n") : (body ?? "").length >= Number(length);
    if (!whole) return;
    console.log(JSON.stringify({ atMs, target: head.split(" ")[1] }));
    text = "";
    const answer = () => socket.write("HTTP/1.1 200 OK\\r\\nContent-Length: 0\\r\\n\\r\\n");
    if (++answered === 1 && ${firstWhenAsked}) process.stdin.once("data", answer);
    else answer();
  });
});
server.listen({ port: 0, host: "127.0.0.1", backlog: 1 }, () => console.log(server.address().port));
`;

/** Answers every request with an empty 200, the first one when it is told to. */
export async function ownProcessServer({ firstWhenAsked = false } = {}): Promise<OwnProcessServer> {
  const child = spawn(process.execPath, ["-e", program(firstWhenAsked)], { stdio: ["pipe", "pipe", "inherit"] });
  const arrivals: Arrival[] = [];
  const lines = createInterface({ input: child.stdout });
  const port = await new Promise<number>((resolve) => lines.once("line", (line) => resolve(Number(line))));
  lines.on("line", (line) => arrivals.push(JSON.parse(line) as Arrival));
  return {
    port,
    arrivals,
    answerFirst: () => void child.stdin.write("answer\n"),
    stop: async () => {
      child.kill("SIGSTOP");
      await until("it stands still", () => readFileSync(`/proc/${String(child.pid)}/stat`, "latin1").includes(") T "));
    },
    resume: () => void child.kill("SIGCONT"),
    [Symbol.asyncDispose]: async () => {
      const gone = new Promise((resolve) => child.once("close", resolve));
      child.kill("SIGKILL");
      await gone;
    },
  };
}
