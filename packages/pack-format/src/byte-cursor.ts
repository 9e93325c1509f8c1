import { PackError } from "./errors.js";
import { uuidText } from "./uuid.js";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Reads little-endian values from untrusted bytes; every read is checked against the end first (PACK_CORRUPT). */
export class ByteCursor {
  readonly #bytes: Buffer;
  #at = 0;
  /** Where the bytes lie in the pack: for error messages only. */
  readonly #base: number;

  constructor(bytes: Uint8Array, base: number) {
    this.#bytes = bufferOver(bytes);
    this.#base = base;
  }

  get left(): number {
    return this.#bytes.length - this.#at;
  }

  /** Ends the reading here with PACK_CORRUPT. */
  fail(what: string): never {
    const offset = this.#base + this.#at;
    throw new PackError("PACK_CORRUPT", `${what} (byte ${offset} of the pack)`, { offset });
  }

  u8(): number {
    return this.#bytes[this.#take(1)] ?? 0;
  }

  u32(): number {
    return this.#bytes.readUInt32LE(this.#take(4));
  }

  u64(): bigint {
    return this.#bytes.readBigUInt64LE(this.#take(8));
  }

  i64(): bigint {
    return this.#bytes.readBigInt64LE(this.#take(8));
  }

  f32(): number {
    return this.#bytes.readFloatLE(this.#take(4));
  }

  f64(): number {
    return this.#bytes.readDoubleLE(this.#take(8));
  }

  integer(width: 1 | 2 | 4, signed: boolean): number {
    const at = this.#take(width);
    return signed ? this.#bytes.readIntLE(at, width) : this.#bytes.readUIntLE(at, width);
  }

  uuid(): string {
    return uuidText(this.#bytes, this.#take(16));
  }

  /** A varuint below 2^32 in its shortest form. */
  varuint(): number {
    let value = 0;
    for (let index = 0, scale = 1; index < 5; index += 1, scale *= 128) {
      const byte = this.u8();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) {
        if (value > 0xffff_ffff || (byte === 0 && index > 0)) break;
        return value;
      }
    }
    return this.fail("a length is not a shortest-form number below 2^32");
  }

  /** A varuint that says how many items follow, each at least `itemBytes` long: more than can follow is refused. */
  count(itemBytes: number): number {
    const count = this.varuint();
    if (count * itemBytes > this.left) this.fail(`a count of ${count} items does not fit into ${this.left} bytes`);
    return count;
  }

  /** A varuint length and so many bytes of valid UTF-8. */
  text(): string {
    const length = this.count(1);
    const at = this.#take(length);
    const bytes = this.#bytes;
    for (let index = at; index < at + length; index += 1) {
      if ((bytes[index] ?? 0) >= 0x80) {
        try {
          return decoder.decode(bytes.subarray(at, at + length));
        } catch {
          return this.fail("a text is not valid UTF-8");
        }
      }
    }
    return bytes.toString("latin1", at, at + length);
  }

  #take(bytes: number): number {
    const at = this.#at;
    if (bytes > this.#bytes.length - at) this.fail(`${bytes} bytes are needed and ${this.left} are left`);
    this.#at = at + bytes;
    return at;
  }
}

/** The same memory as a Buffer. */
export function bufferOver(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** The same memory as a plain Uint8Array, which is what this package hands out. */
export function plain(bytes: Uint8Array): Uint8Array {
  return new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
