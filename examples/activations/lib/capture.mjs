import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { modelId } from "./detector.mjs";
import { samplesPerFrame } from "./wav.mjs";

export const recordsPerFrame = 2; // output and state
const framesPerBatch = 16; // one receipt, so one wait for the disk, for half a second of speech

export const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");
export const bytesOf = (tensor) => new Uint8Array(tensor.data.buffer, tensor.data.byteOffset, tensor.data.byteLength);

/** One tensor that the model gave as one record of the ready-made `tensor` schema: what it is, and its bytes as they are. */
function toRecord(runId, frame, hook, tensor) {
  return {
    scope: { tenant: "demo", session: runId },
    fields: {
      experiment_id: "speech",
      run_id: runId,
      request_id: runId,
      sequence_id: "speech.wav",
      model_id: modelId,
      model_revision: "vad-web-0.0.31",
      capture_policy_version: "every-frame",
      hook_name: hook,
      layer_number: -1, // a tensor of the whole model, not of one layer
      producer_rank: 0,
      step_number: BigInt(frame),
      token_start: BigInt(frame * samplesPerFrame), // in samples
      token_end: BigInt((frame + 1) * samplesPerFrame),
      batch_position: 0,
      dtype: "float32",
      shape: [...tensor.dims],
    },
    payload: bytesOf(tensor),
  };
}

/**
 * Runs the detector over the recording and appends what it computes. Returns when every record is acknowledged (safe from
 * SIGKILL and power loss), with a hash of every tensor taken before it was handed over, keyed `frame/hook`.
 */
export async function capture({ service, detector, wav, run, bar, stop, realtime }) {
  const hashes = new Map();
  const receipts = [];
  let batch = [];
  let acknowledged = 0;

  const send = async () => {
    const records = batch;
    batch = [];
    if (records.length === 0) return;
    const receipt = await service.appendBatch(records.map((r) => r.record));
    // The capture goes on while the disk works; only what the disk has taken is written to the journal.
    const done = receipt.durable().then(() => {
      acknowledged += records.length;
      run.acknowledge(receipt.captureIds.map((id, i) => [id, records[i].hash]));
    });
    done.catch(() => undefined); // a failure is reported by the await below
    receipts.push(done);
  };

  const startedAt = performance.now();
  for (let frame = 0; frame < wav.frames && !stop.aborted; frame += 1) {
    const { output, state } = await detector.listen(wav.frame(frame));
    for (const [hook, tensor] of [
      ["output", output],
      ["state", state],
    ]) {
      const record = toRecord(run.id, frame, hook, tensor);
      const hash = sha256(record.payload);
      hashes.set(`${frame}/${hook}`, hash);
      batch.push({ record, hash });
    }
    if (batch.length >= framesPerBatch * recordsPerFrame) await send();
    bar.update(frame + 1);
    if (realtime) await pace(startedAt + wav.startsAt(frame + 1) * 1000, stop);
  }
  await send();
  await Promise.all(receipts);
  return { hashes, acknowledged, frames: hashes.size / recordsPerFrame };
}

async function pace(until, stop) {
  const ms = until - performance.now();
  if (ms > 0) await sleep(ms, undefined, { signal: stop }).catch(() => undefined); // cut short by Ctrl-C
}
