// Opens a spool directory with a large backlog and uploads it to a store in memory, under limits that the caller has set.
import { systemClock } from "@holdfast/deadline-http";
import { memoryStore } from "@holdfast/object-store";
import { ErrorLog } from "../../src/error-log.js";
import { createIds } from "../../src/ids.js";
import { nodeFiles } from "../../src/spool/files.js";
import { openSpool } from "../../src/spool/open-spool.js";
import { Uploader } from "../../src/uploader.js";
import { notes, settings } from "./spool.js";

const directory = process.argv[2] ?? "";
const errors = new ErrorLog();
const spool = await openSpool({
  settings: { ...settings, directory, maxBytes: 1 << 30 },
  allowSharedFileSystem: false,
  files: nodeFiles(),
  clock: systemClock,
  random: Math.random,
  newId: createIds(systemClock),
  errors,
});
const uploader = new Uploader({
  store: memoryStore(),
  schema: notes,
  spool,
  clock: systemClock,
  concurrency: 4,
  timeoutMs: 24 * 3_600_000,
  errors,
});
const { signal } = new AbortController();
let [uploaded, last, inOrder] = [0, -1n, true];
while (uploader.pending > 0 && errors.last === null) {
  for (const { sequence } of (await uploader.upload(uploader.next(16), signal)).uploaded) {
    inOrder &&= sequence > last;
    last = sequence;
    uploaded += 1;
  }
}
await spool.close();
console.log(errors.last ?? `${uploaded} packs${inOrder ? " in order" : ""}`);
