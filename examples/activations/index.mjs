#!/usr/bin/env node
// A speech detector listens to a recording. What it computes for every frame (its output and its inner state) is captured with
// Holdfast, then found again by a question ("which ten frames are most surely speech?") and verified bit for bit.
// Press Ctrl-C or kill -9 it half-way, then run it again: what had been acknowledged is recovered first.
import { capture, recordsPerFrame } from "./lib/capture.mjs";
import { openDetector } from "./lib/detector.mjs";
import { openRun, unfinishedRuns } from "./lib/journal.mjs";
import { oneLine } from "./lib/one-line.mjs";
import { readOptions, usage } from "./lib/options.mjs";
import { recover } from "./lib/recover.mjs";
import { screen } from "./lib/screen.mjs";
import { openHoldfast } from "./lib/system.mjs";
import { mostSurelySpeech, speechOf, verifyRun } from "./lib/verify.mjs";
import { readWav } from "./lib/wav.mjs";

/** The clean stop: the first Ctrl-C (or SIGTERM) ends the capture after the current frame, a second one ends the process. */
function stopSignal() {
  const controller = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"]) process.once(name, () => controller.abort());
  return controller.signal;
}

async function main() {
  const options = readOptions(process.argv.slice(2));
  if (options.help) return process.stdout.write(usage);
  const startedAt = performance.now();
  const stop = stopSignal();
  const wav = readWav(options.wav);
  const expected = wav.frames * recordsPerFrame; // what must be found at the end follows from the recording alone

  screen.title("Holdfast: a speech detector listens, and everything it computes is kept.");
  screen.fact(
    "recording",
    `${wav.name}: ${wav.seconds.toFixed(1)} s, ${wav.frames} frames of 32 ms, ${expected} records`,
  );
  screen.fact("kept in", options.dir);

  const interrupted = unfinishedRuns(options.dir);
  if (interrupted.length > 0) screen.fact("recovering", "an earlier run was cut short; its lease ends within 5 s");
  const detectorReady = openDetector(); // compiles the model while the database starts
  detectorReady.catch(() => undefined); // reported below, where it is awaited
  screen.waiting("starting ClickHouse");
  const holdfast = await openHoldfast(options);
  try {
    screen.waiting("opening the spool and the catalog");
    for (const result of await recover(holdfast, interrupted)) screen.recovered(result);
    screen.waiting("loading the model");
    const run = openRun(options.dir, { frames: wav.frames, expected });
    const detector = await detectorReady;
    screen.fact("run", run.id);

    const bar = screen.bar(wav.frames);
    const kept = await capture({
      service: holdfast.service,
      detector,
      wav,
      run,
      bar,
      stop,
      realtime: options.realtime,
    });
    bar.stop();
    if (stop.aborted) {
      screen.stopped(kept, wav.frames);
      process.exitCode = 130;
      return;
    }
    screen.fact("captured", `${kept.acknowledged} records acknowledged: from here on they survive a crash`);
    screen.waiting("publishing");
    if (!(await holdfast.service.flush(60_000)))
      throw new Error("flush did not finish within 60 s; run it again to go on");
    await holdfast.service.stop();

    screen.waiting("reading back");
    const snapshot = await holdfast.snapshot();
    const speech = await speechOf(snapshot, run.id);
    screen.curve(speech, wav.seconds);
    screen.frames(await mostSurelySpeech(snapshot, run.id, speech, 10), wav);
    const result = await verifyRun(snapshot, run.id, expected, kept.hashes);
    screen.summary({
      ...result,
      version: snapshot.version,
      recordsOfAllRuns: await snapshot.count(),
      packBytes: await holdfast.packBytes(result.packKeys),
      seconds: (performance.now() - startedAt) / 1000,
    });
    screen.verdict(result.verified, expected);
    if (result.problems.length > 0) throw new Error(result.problems.join("; "));
    run.finish({ verified: result.verified });
  } finally {
    await holdfast.close();
  }
}

try {
  await main();
} catch (error) {
  screen.clear();
  process.stderr.write(`error: ${oneLine(error)}\n`);
  process.exitCode = 1;
}
