// A process that captures records until it is killed. It gets its orders over IPC and reports there what was acknowledged:
// a report that the parent has is true, whatever happens to this process next.
import { setTimeout as sleep } from "node:timers/promises";
import type { CaptureService } from "../../../packages/capture-service/src/service-types.js";
import { createServiceOn } from "../../../packages/capture-service/src/service.js";
import { fsStore } from "@holdfast/storage-fs";
import type { Orders, Report } from "./boundaries.js";
import { mortalFiles, mortalStore, Reaper } from "./mortal.js";
import { crashSchema, payloadOf } from "./schema.js";

const batch = 10;
/** Appending waits while so many packs wait to be uploaded and indexed: what is acknowledged says how far the rest has come. */
const maxBacklog = 6;
/** Ends what hangs. */
const hangMs = 1_800_000;

/** Resolves when the report is on its way for good: it outlives this process then. */
function say(report: Report): Promise<void> {
  return new Promise((resolve) => {
    process.send?.(report, () => resolve());
  });
}

function serviceOf(orders: Orders, reaper: Reaper): CaptureService {
  const schema = crashSchema(orders.schemaName);
  const store = mortalStore(fsStore({ directory: orders.storeDirectory, storeId: "crash" }), reaper);
  const spool = { directory: orders.spoolDirectory, maxLingerMs: 60, maxPackRecords: 60, admissionTimeoutMs: hangMs };
  const common = { role: orders.role, schema, store, publishIntervalMs: 50, spool };
  if (orders.role === "capture-only") return createServiceOn(common, mortalFiles(reaper));
  const catalog = { url: orders.catalogUrl, requestTimeoutMs: hangMs };
  return createServiceOn({ ...common, catalog, lease: { ...orders.lease, startWaitMs: hangMs } }, mortalFiles(reaper));
}

async function live(orders: Orders): Promise<void> {
  const reaper = new Reaper(orders);
  const service = serviceOf(orders, reaper);
  await service.start();
  reaper.starting = false;
  await say({ kind: "started" });
  if (orders.last) {
    const drained = await service.flush(hangMs);
    const status = JSON.stringify(service.status());
    await service.stop();
    await say({ kind: "finished", drained, status });
    process.disconnect();
    return;
  }
  for (let group = 0; ; group += 1) {
    const ids = Array.from({ length: batch }, (_, i) => `${orders.name}.${group}.${i}`);
    await say({ kind: "appended", ids });
    const scope = { tenant: "crash", session: orders.name };
    const records = ids.map((captureId, i) => ({
      captureId,
      scope,
      fields: { kind: "test", step: BigInt(i) },
      payload: payloadOf(captureId),
    }));
    const receipt = await service.appendBatch(records);
    await receipt.durable();
    await say({ kind: "acknowledged", ids });
    reaper.acknowledged();
    await catchUp(service);
  }
}

/** Waits until little is left to be uploaded and indexed; reports when that does not get any further. */
async function catchUp(service: CaptureService): Promise<void> {
  const { cycles, indexFailures, uploadFailures } = service.status();
  const failures = indexFailures + uploadFailures;
  do {
    await sleep(4);
    const now = service.status();
    if (now.cycles > cycles + 2_000 || now.indexFailures + now.uploadFailures > failures + 3)
      await say({ kind: "stuck", status: JSON.stringify(now) });
  } while (backlogOf(service) > maxBacklog);
}

function backlogOf(service: CaptureService): number {
  const { spool, pendingIndex } = service.status();
  return (spool?.packs ?? 0) + pendingIndex;
}

process.once("message", (orders: Orders) => {
  live(orders).catch((error: unknown) => {
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    process.exitCode = 1;
    void say({ kind: "failed", message }).then(() => process.disconnect());
  });
});
// The parent's death is this process's too.
process.once("disconnect", () => process.exit());
void say({ kind: "ready" });
