import { setImmediate } from "node:timers/promises";
import { crcOn } from "./crc.js";

/** Copying, hashing and checking this much takes a few milliseconds: longer stretches would hold the event loop. */
const sliceBytes = 4 * 1024 * 1024;

/** Calls `work` with the bytes in order, in slices, and lets other work run between two of them. */
export async function inSlices(bytes: Uint8Array, work: (slice: Uint8Array) => void): Promise<void> {
  for (let at = 0; at < bytes.byteLength; at += sliceBytes) {
    if (at > 0) await setImmediate();
    work(bytes.subarray(at, at + sliceBytes));
  }
}

/** CRC-32 of any number of bytes. */
export async function crcOf(bytes: Uint8Array): Promise<number> {
  if (bytes.byteLength <= sliceBytes) return crcOn(bytes);
  let crc = 0;
  await inSlices(bytes, (slice) => {
    crc = crcOn(slice, crc);
  });
  return crc;
}

/** What handling one small record costs, in bytes of plain copying and hashing. */
export const recordWork = 16 * 1024;

/** Counts bytes of synchronous work, and lets other work run when there was a slice's worth of it. */
export class Breather {
  #left = sliceBytes;

  async after(bytes: number): Promise<void> {
    this.#left -= bytes;
    if (this.#left > 0) return;
    this.#left = sliceBytes;
    await setImmediate();
  }
}
