// A process that captures records until it is killed. It gets its orders over IPC and reports there what was acknowledged:
// a report that the parent has is true, whatever happens to this process next.
import { setTimeout as sleep } from "node:timers/promises";
import { fsStore } from "@holdfast/storage-fs";
import { createServiceOn } from "../../../packages/capture-service/src/service.js";
import type { Orders, Report } from "./boundaries.js";
import { mortalFiles, mortalStore, Reaper } from "./mortal.js";
import { crashSchema, payloadOf } from "./schema.js";

const batch = 10;

/** Resolves when the report is on its way for good: it outlives this process then. */
function say(report: Report): Promise<void> {
  return new Promise((resolve) => {
    process.send?.(report, () => resolve());
  });
}

async function live(orders: Orders): Promise<void> {
  const reaper = new Reaper(orders.boundary, orders.occurrence);
  const service = createServiceOn(
    {
      role: orders.role,
      schema: crashSchema(orders.schemaName),
      store: mortalStore(fsStore({ directory: orders.storeDirectory, storeId: "crash" }), reaper),
      ...(orders.role === "publisher"
        ? {
            catalog: { url: orders.catalogUrl, requestTimeoutMs: 20_000 },
            lease: { ttlMs: orders.ttlMs, publishTimeoutMs: 800, startWaitMs: 30_000 },
          }
        : {}),
      publishIntervalMs: 50,
      spool: { directory: orders.spoolDirectory, maxLingerMs: 60, maxPackRecords: 60 },
    },
    mortalFiles(reaper),
  );
  await service.start();
  reaper.starting = false;
  await say({ kind: "started" });
  if (orders.last) {
    const drained = await service.flush(60_000);
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
    await sleep(4);
  }
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
