import { sha256 } from "./capture.mjs";

/** All records that match, over as many pages as it takes. */
export async function searchAll(snapshot, where, orderBy) {
  const found = [];
  let cursor;
  do {
    const page = await snapshot.search({ where, limit: 1_000, ...(orderBy && { orderBy }), ...(cursor && { cursor }) });
    found.push(...page.records);
    cursor = page.cursor;
  } while (cursor !== null);
  return found;
}

const floats = (bytes) => {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Float32Array.from({ length: bytes.byteLength / 4 }, (_, i) => view.getFloat32(i * 4, true));
};

/** How surely each frame of a run is speech, read from the output records: step -> 0 to 1. */
export async function speechOf(snapshot, runId) {
  const speech = new Map();
  const outputs = await searchAll(snapshot, { run_id: runId, hook_name: "output" });
  for await (const { record, payload } of snapshot.read(outputs))
    speech.set(record.fields.step_number, floats(payload)[0]);
  return speech;
}

/** The `limit` frames that are most surely speech, each with the state tensor that the model had after it. */
export async function mostSurelySpeech(snapshot, runId, speech, limit) {
  const steps = [...speech.keys()].sort((a, b) => speech.get(b) - speech.get(a) || Number(a - b)).slice(0, limit);
  // The question that only a catalog answers: the states of just these frames, out of everything that was ever kept.
  const found = await searchAll(snapshot, { run_id: runId, hook_name: "state", step_number: steps });
  const states = new Map();
  for await (const { record, payload } of snapshot.read(found))
    states.set(record.fields.step_number, { record, values: floats(payload) });
  const missing = steps.filter((step) => !states.has(step));
  if (missing.length > 0) throw new Error(`the state of frame ${missing.join(", ")} of ${runId} was not found`);
  return steps.map((step) => ({ step, speech: speech.get(step), ...states.get(step) }));
}

/** Reads back every record of a run and compares it with what the model gave: each tensor once, bit for bit, and none besides. */
export async function verifyRun(snapshot, runId, expected, hashes) {
  const records = await searchAll(snapshot, { run_id: runId });
  const problems = [];
  if (records.length !== expected) problems.push(`${records.length} records of ${runId} were found, not ${expected}`);
  const seen = new Set();
  let verified = 0;
  let bytes = 0;
  for await (const { record, payload } of snapshot.read(records)) {
    const key = `${record.fields.step_number}/${record.fields.hook_name}`;
    bytes += payload.length;
    if (seen.has(key)) problems.push(`${key} is there twice`);
    else if (hashes.get(key) !== sha256(payload)) problems.push(`${key} differs from what the model gave`);
    else verified += 1;
    seen.add(key);
  }
  return { records: records.length, verified, bytes, problems, packKeys: [...new Set(records.map((r) => r.pack.key))] };
}
