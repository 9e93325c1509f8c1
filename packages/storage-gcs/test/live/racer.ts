// A process of the race: creates the keys that its parent names, each with bytes of its own, and reports how each ended. Its way to the server
// is a proxy that loses every fifth answer to an upload: the server has done what was asked, and the connection ends where it would have said so.
import { createLimiter, putVerified } from "@holdfast/object-store";
import { startFaultProxy } from "@holdfast/testkit";
import { storeAt } from "../support/emulator.js";

const { pid } = process;
const [url = "", bucket = ""] = process.argv.slice(2);
const { signal } = new AbortController();
const { hostname, port } = new URL(url);

const proxy = await startFaultProxy({ target: { host: hostname, port: Number(port) } });
let uploads = 0;
proxy.use({
  match: ({ method }) => method === "POST" && ++uploads % 5 === 0,
  fault: { kind: "cut-answer", afterBytes: 0, by: "rst" },
});
const lost = (): number => proxy.requests.filter(({ faults }) => faults.includes("cut-answer")).length;

const store = storeAt(proxy.url, bucket, { attempts: 8, storeId: "race" });
const places = createLimiter(4);

async function create(key: string): Promise<[key: string, outcome: string]> {
  const body = new TextEncoder().encode(`${pid} ${key}`);
  const { outcome } = await places(() => putVerified(store, key, body, { writeId: `${pid}/${key}`, signal }), signal);
  return [key, outcome];
}

process.on("message", (keys: readonly string[]) => {
  void Promise.all(keys.map(create)).then((ends) => process.send?.({ pid, lost: lost(), ends }));
});
process.once("disconnect", () => void proxy[Symbol.asyncDispose]());
process.send?.("ready");
