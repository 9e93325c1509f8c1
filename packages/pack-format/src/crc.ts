import { crc32 } from "node:zlib";

/**
 * The CRC-32 of `bytes`, or of more bytes when `crc` is that of those before them. The empty case is ours: zlib.crc32 of
 * Node.js 20 and 22 answers 0 instead of `crc` for an empty view whose `buffer` was ever looked at, and a block with such
 * a payload would fail its own checksum.
 */
export function crcOn(bytes: Uint8Array, crc = 0): number {
  return bytes.byteLength === 0 ? crc : crc32(bytes, crc);
}

const polynomial = 0xedb88320;

/** The product of two polynomials over GF(2), bit-reversed as CRC-32 has them, modulo its polynomial. */
function multiply(a: number, b: number): number {
  let product = 0;
  let factor = b;
  for (let bit = 31; bit >= 0; bit -= 1) {
    if ((a >>> bit) & 1) product ^= factor;
    factor = factor & 1 ? (factor >>> 1) ^ polynomial : factor >>> 1;
  }
  return product >>> 0;
}

/** x to the power of 2^n, for n from 0 to 31. */
const powers: number[] = [];
for (let power = 0x4000_0000, n = 0; n < 32; n += 1) {
  powers.push(power);
  power = multiply(power, power);
}

/** The CRC-32 of A followed by B, from that of A, that of B and the length of B, which is below 2^29. */
export function crcOfBoth(crcA: number, crcB: number, bytesB: number): number {
  let shift = 0x8000_0000;
  for (let bits = bytesB * 8, n = 0; bits > 0; bits = Math.floor(bits / 2), n += 1) {
    if (bits % 2 === 1) shift = multiply(powers[n] ?? 0, shift);
  }
  return (multiply(shift, crcA) ^ crcB) >>> 0;
}

// Joining two checksums costs a few microseconds, as does reading this many bytes again.
const worthJoining = 32 * 1024;

/** {@link crcOfBoth} for a B that is at hand: reads it again when that is quicker. */
export function crcWith(crcA: number, b: Uint8Array, crcB: number): number {
  return b.byteLength < worthJoining ? crcOn(b, crcA) : crcOfBoth(crcA, crcB, b.byteLength);
}
