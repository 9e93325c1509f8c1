import { randomBytes } from "node:crypto";
import { appendFileSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

// Each run keeps a journal of what was acknowledged to it, outside of Holdfast, so that the next run can hold Holdfast to its
// word: one JSON object a line, written only after the receipt said durable. A line cut off by a kill is left out.

const folder = (dir) => join(dir, "journal");

/** Starts the journal of a new run; its id names the run in every record. */
export function openRun(dir, about) {
  const number = existsSync(folder(dir)) ? readdirSync(folder(dir)).length + 1 : 1;
  const id = `run-${number}-${randomBytes(3).toString("hex")}`;
  mkdirSync(folder(dir), { recursive: true });
  const path = join(folder(dir), `${id}.jsonl`);
  writeFileSync(path, `${JSON.stringify({ run: id, ...about })}\n`, { flag: "wx" });
  return journalOf(id, path);
}

function journalOf(id, path) {
  const line = (object) => appendFileSync(path, `${JSON.stringify(object)}\n`);
  return {
    id,
    /** Notes acknowledged records: pairs of capture id and SHA-256 of the payload. */
    acknowledge: (pairs) => line({ acknowledged: pairs }),
    /** Closes the journal: this run has been checked and need not be looked at again. */
    finish: (result) => line({ finished: result }),
  };
}

/** The runs that were cut short: each with what had been acknowledged to it (capture id -> SHA-256 of its payload). */
export function unfinishedRuns(dir) {
  if (!existsSync(folder(dir))) return [];
  return readdirSync(folder(dir))
    .filter((name) => name.endsWith(".jsonl"))
    .sort()
    .map((name) => readJournal(join(folder(dir), name), name.slice(0, -".jsonl".length)))
    .filter((run) => !run.finished);
}

function readJournal(path, id) {
  const run = { ...journalOf(id, path), acknowledged: new Map(), finished: false };
  for (const text of readFileSync(path, "utf8").split("\n").slice(0, -1)) {
    const line = JSON.parse(text);
    for (const [captureId, hash] of line.acknowledged ?? []) run.acknowledged.set(captureId, hash);
    if (line.finished) run.finished = true;
  }
  return run;
}
