// Run as a process of its own by half-written.test.ts. Every client of the package writes a body that is longer than what the kernel takes;
// the test stops the process amid that, or lets it block. Arguments: a server's address, the bound in ms, the bytes of a body. Tells on its
// output, one JSON object a line: ready, then blocking (when it was told to block), then one end for each call.
import { writeSync } from "node:fs";
import { within } from "@holdfast/deadline-http";
import { writersTo } from "./bodies.js";

const [url = "", boundMs = "", bodyBytes = ""] = process.argv.slice(2);
const ms = Number(boundMs);
/** At once, whatever the event loop does. */
const tell = (what: object): void => void writeSync(1, `${JSON.stringify(what)}\n`);

const { calls } = writersTo(url);
// Loaded and connected beforehand, so that the bound below is spent on writing.
await Promise.all(Object.values(calls).map((call) => call(10)));
process.stdin.once("data", () => {
  tell({ blocking: true });
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms * 1.2);
});
const running = Object.entries(calls).map(async ([kind, call]) => {
  const end = await within(ms, () => call(Number(bodyBytes))).then(
    () => ({ answered: true }),
    (error: unknown) => {
      const { code, outcome, message } = error as { code?: string; outcome?: string; message: string };
      return { code, outcome, message };
    },
  );
  tell({ kind, ...end });
});
tell({ ready: running.length });
await Promise.all(running);
process.exit(0);
