import { writeUuid } from "./uuid.js";

/** A growing little-endian byte buffer. Values are checked by the caller; a wrong one is a bug and throws. */
export class ByteSink {
  #bytes: Buffer;
  #length = 0;

  constructor(capacity = 1024) {
    this.#bytes = Buffer.allocUnsafeSlow(capacity);
  }

  get length(): number {
    return this.#length;
  }

  /** Forgets everything after the first `length` bytes. */
  truncate(length: number): void {
    this.#length = length;
  }

  /** The bytes so far: a view that the next write may leave behind. */
  view(): Buffer {
    return this.#bytes.subarray(0, this.#length);
  }

  u8(value: number): void {
    const at = this.#grow(1);
    this.#bytes[at] = value;
  }

  u32(value: number): void {
    const at = this.#grow(4);
    this.#bytes.writeUInt32LE(value, at);
  }

  u64(value: bigint): void {
    const at = this.#grow(8);
    this.#bytes.writeBigUInt64LE(value, at);
  }

  i64(value: bigint): void {
    const at = this.#grow(8);
    this.#bytes.writeBigInt64LE(value, at);
  }

  f32(value: number): void {
    const at = this.#grow(4);
    this.#bytes.writeFloatLE(value, at);
  }

  f64(value: number): void {
    const at = this.#grow(8);
    this.#bytes.writeDoubleLE(value, at);
  }

  /** An integer of 1, 2 or 4 bytes; a negative one in two's complement. */
  integer(value: number, width: 1 | 2 | 4): void {
    const at = this.#grow(width);
    if (value < 0) this.#bytes.writeIntLE(value, at, width);
    else this.#bytes.writeUIntLE(value, at, width);
  }

  uuid(text: string): void {
    const at = this.#grow(16);
    writeUuid(text, this.#bytes, at);
  }

  /** An unsigned integer below 2^32 as LEB128, in as few bytes as it takes. */
  varuint(value: number): void {
    let rest = value;
    while (rest > 0x7f) {
      this.u8((rest & 0x7f) | 0x80);
      rest = Math.floor(rest / 128);
    }
    this.u8(rest);
  }

  /** The number of UTF-8 bytes as a varuint, then the bytes. */
  text(value: string): void {
    const bytes = Buffer.byteLength(value);
    this.varuint(bytes);
    const at = this.#grow(bytes);
    this.#bytes.write(value, at, bytes, "utf8");
  }

  raw(value: Uint8Array): void {
    const at = this.#grow(value.byteLength);
    this.#bytes.set(value, at);
  }

  #grow(by: number): number {
    const at = this.#length;
    const needed = at + by;
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2));
      larger.set(this.#bytes.subarray(0, at));
      this.#bytes = larger;
    }
    this.#length = needed;
    return at;
  }
}

/** How many bytes {@link ByteSink.varuint} takes for `value`. */
export function varuintBytes(value: number): number {
  let bytes = 1;
  for (let rest = value; rest > 0x7f; rest = Math.floor(rest / 128)) bytes += 1;
  return bytes;
}
