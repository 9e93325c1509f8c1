import { sha256 } from "./capture.mjs";
import { searchAll } from "./verify.mjs";

/**
 * Starts the capture service, which first brings in what interrupted runs left in the spool, then holds it to its word:
 * every record that a run's journal calls acknowledged must be found, once, with the bytes that it had.
 */
export async function recover(holdfast, interrupted) {
  const before = await countRuns(await holdfast.snapshotIfAny(), interrupted);
  await holdfast.service.start();
  if (interrupted.length === 0) return [];
  if (!(await holdfast.service.flush(60_000)))
    throw new Error("what an earlier run left could not be brought in within 60 s; run it again");
  const snapshot = await holdfast.snapshot();
  const results = [];
  for (const [i, run] of interrupted.entries()) {
    const found = await searchAll(snapshot, { run_id: run.id });
    const intact = await intactIds(snapshot, found, run.acknowledged);
    const missing = run.acknowledged.size - intact.size;
    if (missing > 0)
      throw new Error(`${missing} of ${run.acknowledged.size} acknowledged records of ${run.id} are lost or changed`);
    run.finish({ recovered: intact.size });
    results.push({
      id: run.id,
      acknowledged: run.acknowledged.size,
      recovered: intact.size,
      found: found.length,
      before: before[i],
    });
  }
  return results;
}

async function countRuns(snapshot, runs) {
  return Promise.all(runs.map((run) => (snapshot === null ? 0 : snapshot.count({ where: { run_id: run.id } }))));
}

async function intactIds(snapshot, found, acknowledged) {
  const intact = new Set();
  const seen = new Set();
  for await (const { record, payload } of snapshot.read(found)) {
    if (seen.has(record.captureId)) throw new Error(`record ${record.captureId} is there twice`);
    seen.add(record.captureId);
    if (acknowledged.get(record.captureId) === sha256(payload)) intact.add(record.captureId);
  }
  return intact;
}
