import { readFileSync } from "node:fs";
import { basename } from "node:path";

export const sampleRate = 16_000;
export const samplesPerFrame = 512; // what the model takes at once: 32 ms

/** Reads a WAV file of 16 kHz, mono, 16 bit. Its whole frames of 512 samples count; a shorter rest at the end is left out. */
export function readWav(path) {
  let file;
  try {
    file = readFileSync(path);
  } catch (cause) {
    throw new Error(`cannot read the recording ${path}; give another with --wav FILE`, { cause });
  }
  const refuse = (what) => new Error(`${path} ${what}; it must be a WAV file of 16 kHz, mono, 16 bit`);
  if (file.length < 12 || file.toString("latin1", 0, 4) !== "RIFF" || file.toString("latin1", 8, 12) !== "WAVE")
    throw refuse("is no WAV file");
  let format;
  for (let at = 12; at + 8 <= file.length;) {
    const id = file.toString("latin1", at, at + 4);
    const end = at + 8 + file.readUInt32LE(at + 4);
    if (end > file.length) throw refuse("is cut short");
    if (id === "fmt ")
      format = {
        kind: file.readUInt16LE(at + 8),
        channels: file.readUInt16LE(at + 10),
        rate: file.readUInt32LE(at + 12),
        bits: file.readUInt16LE(at + 22),
      };
    if (id === "data") {
      if (!format) throw refuse("has no format before its samples");
      if (format.kind !== 1 || format.channels !== 1 || format.rate !== sampleRate || format.bits !== 16)
        throw refuse(`has ${format.rate} Hz, ${format.channels} channel(s), ${format.bits} bit`);
      return asFrames(path, file.subarray(at + 8, end));
    }
    at = end + (end % 2); // chunks start at even offsets
  }
  throw refuse("has no samples");
}

function asFrames(path, bytes) {
  const samples = Math.floor(bytes.length / 2);
  const frames = Math.floor(samples / samplesPerFrame);
  if (frames === 0) throw new Error(`${path} is shorter than one frame (${samplesPerFrame} samples)`);
  return {
    name: basename(path),
    frames,
    seconds: samples / sampleRate,
    /** The samples of frame i as floats in [-1, 1). */
    frame: (i) =>
      Float32Array.from(
        { length: samplesPerFrame },
        (_, j) => bytes.readInt16LE((i * samplesPerFrame + j) * 2) / 32_768,
      ),
    /** Where frame i begins, in seconds from the start of the recording. */
    startsAt: (i) => (i * samplesPerFrame) / sampleRate,
  };
}
