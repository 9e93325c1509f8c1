// @ts-check
// A store of your own, first by hand, then under a capture service that spools records and uploads packs into it. Needs nothing but
// Node: the HTTP service that the store talks to is started here, in this process.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createCaptureService, defineCaptureSchema } from "@holdfast/capture-service";
import { putVerified } from "@holdfast/object-store";
import { httpStore } from "./http-store.mjs";
import { startServer } from "./server.mjs";

const server = await startServer();
const store = httpStore({ url: server.url, storeId: "my-service" });
// Every call takes a signal. Here one for all of them: nothing of this takes half a minute.
const signal = AbortSignal.timeout(30_000);
const text = (/** @type {string} */ s) => new TextEncoder().encode(s);

console.log("1. By hand");
const put = await store.put("notes/first", text("hello, store"), { mode: "create", metadata: { by: "me" }, signal });
console.log(`   put: ${put.outcome}`);
const { bytes, info } = await store.get("notes/first", { range: { suffix: 5 }, signal });
console.log(
  `   last 5 of ${info.size} bytes: "${new TextDecoder().decode(bytes)}", metadata ${JSON.stringify(info.metadata)}`,
);

const racers = Array.from({ length: 8 }, (_, i) =>
  store.put("notes/race", text(`racer ${i}`), { mode: "create", signal }),
);
const outcomes = (await Promise.all(racers)).map((result) => result.outcome);
const count = (/** @type {string} */ outcome) => outcomes.filter((one) => one === outcome).length;
console.log(`   race of 8 creates on one key: ${count("created")} created, ${count("exists")} exists`);

server.loseNextAnswer();
const lost = await store.put("notes/lost", text("did it land?"), { mode: "create", signal });
console.log(`   put whose answer was lost: ${lost.outcome}`);
server.loseNextAnswer();
const found = await putVerified(store, "notes/found", text("did it land?"), { writeId: "note-7", signal });
console.log(`   the same with putVerified, which looks for its write id: ${found.outcome}`);

const keys = [];
for await (const { key } of store.list({ prefix: "notes/", signal })) keys.push(key);
console.log(`   list: ${keys.join(", ")}`);

console.log("2. Under a capture service");
const schema = defineCaptureSchema({
  name: "readings",
  version: 1,
  fields: { sensor: "LowCardinality(String)", celsius: "Float64" },
  orderBy: ["sensor"],
});
const spool = await mkdtemp(join(tmpdir(), "holdfast-custom-store-"));
// capture-only: it spools and uploads. A publisher elsewhere, on the same store, makes the packs searchable.
const service = createCaptureService({ role: "capture-only", schema, store, spool: { directory: spool } });
await service.start();
const records = Array.from({ length: 1000 }, (_, i) => ({
  scope: { tenant: "demo", session: "today" },
  fields: { sensor: `s${i % 4}`, celsius: 20 + (i % 10) / 10 },
  payload: text(`raw frame ${i}`),
}));
const receipt = await service.appendBatch(records);
await receipt.durable();
console.log(`   ${receipt.captureIds.length} records are on disk`);
const flushed = await service.flush(20_000);
await service.stop();

let packs = 0;
for await (const { key, size } of store.list({ prefix: "v1/readings/", signal })) {
  packs++;
  console.log(`   ${key} (${size} bytes)`);
}
await rm(spool, { recursive: true });
await server.close();

const good =
  flushed && packs > 0 && count("created") === 1 && lost.outcome === "unknown" && found.outcome === "created";
console.log(good ? `Done: ${packs} pack uploaded into a store of your own.` : "Something is wrong: see above.");
process.exitCode = good ? 0 : 1;
