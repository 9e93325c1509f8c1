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

/** The `limit` frames of a run that are most surely speech, each with the state tensor that the model had after it. */
export async function mostSurelySpeech(snapshot, runId, wav, limit) {
  const outputs = [];
  const outputRecords = await searchAll(snapshot, { run_id: runId, hook_name: "output" });
  for await (const { record, payload } of snapshot.read(outputRecords))
    outputs.push({ step: record.fields.step_number, speech: floats(payload)[0] });
  outputs.sort((a, b) => b.speech - a.speech || Number(a.step - b.step));
  const top = outputs.slice(0, limit);

  // The question that only a catalog answers: the states of just these frames, out of everything that was ever kept.
  const where = { run_id: runId, hook_name: "state", step_number: top.map((o) => o.step) };
  const states = new Map();
  for await (const { record, payload } of snapshot.read(await searchAll(snapshot, where)))
    states.set(record.fields.step_number, { record, values: floats(payload) });
  return top.map(({ step, speech }) => ({ startsAt: wav.startsAt(Number(step)), step, speech, ...states.get(step) }));
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
