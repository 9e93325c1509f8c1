// Run as a process of its own by half-written.test.ts. Every client of the package writes a body that is longer than what the kernel takes;
// the test stops the process amid that, or has it block. Arguments: a server's address, the bound in ms, the bytes of a body, and the file
// that makes its time jump by the bound (held-clock.ts). Writes to its output, one JSON object a line: ready, then blocking (when it was told
// to block), then one end for each call.
import { writeSync } from "node:fs";
import { within } from "@holdfast/deadline-http";
import { writersTo } from "./bodies.js";
import { blockUntil, heldClock } from "./held-clock.js";

const [url = "", boundMs = "", bodyBytes = "", goesOn = ""] = process.argv.slice(2);
const ms = Number(boundMs);
const clock = heldClock(goesOn, ms);
/** At once, whatever the event loop does. */
const tell = (what: object): void => void writeSync(1, `${JSON.stringify(what)}\n`);

const { calls } = writersTo(url);
// Loaded and connected beforehand, so that the bound below is spent on writing.
await Promise.all(Object.values(calls).map((call) => call(10)));
process.stdin.once("data", () => {
  tell({ blocking: true });
  blockUntil(goesOn);
});
const running = Object.entries(calls).map(async ([kind, call]) => {
  const end = await within(ms, () => call(Number(bodyBytes)), { clock }).then(
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
