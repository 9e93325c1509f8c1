// A second process for the tests beside it: `worker.ts MODE DIRECTORY …`, one JSON line of answer on standard output.
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
import { ObjectStoreError, putVerified, type ObjectStore } from "@holdfast/object-store";
import { fsStore } from "@holdfast/storage-fs";

const [mode, directory = "", argument = ""] = process.argv.slice(2);
const { signal } = new AbortController();
const say = (answer: unknown) => process.stdout.write(`${JSON.stringify(answer)}\n`);
const bytes = (text: string) => new TextEncoder().encode(text);

/** A store whose answers to every third key are lost on the way, after the put was done. */
function losing(real: ObjectStore): ObjectStore {
  const lost = new ObjectStoreError("UNAVAILABLE", "the answer was lost");
  return {
    contract: 1,
    storeId: real.storeId,
    capabilities: real.capabilities,
    async put(key, body, o) {
      const result = await real.put(key, body, o);
      return Number(key.split("/").at(-1)) % 3 === 0 ? { outcome: "unknown", error: lost } : result;
    },
    get: (key, o) => real.get(key, o),
    head: (key, o) => real.head(key, o),
    list: (o) => real.list(o),
    delete: (key, o) => real.delete(key, o),
  };
}

/** For each line of key numbers on standard input, creates those keys in that order, while the other process does the same. */
async function race(): Promise<void> {
  const store = losing(fsStore({ directory }));
  const by = String(process.pid);
  say("ready");
  for await (const line of createInterface({ input: process.stdin })) {
    const won: number[] = [];
    let strange = 0;
    for (const i of line.split(" ").map(Number)) {
      const options = { writeId: `${by}-${i}`, metadata: { by }, signal };
      const result = await putVerified(store, `race/${i}`, bytes(`${by} `.repeat(200)), options);
      if (result.outcome === "created") won.push(i);
      else if (result.outcome !== "conflict" || result.info.metadata["by"] === by) strange++;
    }
    say({ pid: process.pid, won, strange });
  }
}

/** One put of a body that never ends, so that the process can be killed in the middle of it. */
async function stall(): Promise<void> {
  const body = {
    size: 1 << 20,
    async *open() {
      yield new Uint8Array(1 << 19);
      say("half");
      yield* createReadStream("/dev/stdin");
    },
  };
  say(await fsStore({ directory }).put("k", body, { mode: "create", signal }));
}

async function put(size: number): Promise<void> {
  const result = await fsStore({ directory }).put("k", new Uint8Array(size), { mode: "create", signal });
  say("error" in result ? { outcome: result.outcome, message: result.error.message } : result);
}

if (mode === "race") await race();
else if (mode === "stall") await stall();
else {
  // As nobody, when the tests run as root: root may write everywhere.
  if (mode === "as-nobody" && process.getuid?.() === 0) process.setuid?.(65534);
  await put(Number(argument));
}
process.exit(0);
