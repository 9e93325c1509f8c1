import { gunzip, gzip } from "node:zlib";

// libuv has four pool threads and file work needs some of them: no more than two of ours are taken by compression.
const most = 2;
let running = 0;
const waiting: (() => void)[] = [];

async function inTurn<T>(work: () => Promise<T>): Promise<T> {
  while (running >= most) await new Promise<void>((resolve) => waiting.push(resolve));
  running += 1;
  try {
    return await work();
  } finally {
    running -= 1;
    waiting.shift()?.();
  }
}

// Level 1: a capture writer waits for it, and the higher levels cost several times more for a few percent.
const level = 1;
const chunkBytes = 256 * 1024;

/** Compresses off the event loop. */
export function compress(bytes: Uint8Array): Promise<Buffer> {
  return inTurn(
    () =>
      new Promise((resolve, reject) => {
        gzip(bytes, { level, chunkSize: chunkBytes }, (error, result) =>
          error === null ? resolve(result) : reject(error),
        );
      }),
  );
}

/** Decompresses off the event loop, and stops with an error above `mostBytes` of result. */
export function decompress(bytes: Uint8Array, mostBytes: number): Promise<Buffer> {
  return inTurn(
    () =>
      new Promise((resolve, reject) => {
        gunzip(bytes, { maxOutputLength: Math.max(mostBytes, 1), chunkSize: chunkBytes }, (error, result) =>
          error === null ? resolve(result) : reject(error),
        );
      }),
  );
}
