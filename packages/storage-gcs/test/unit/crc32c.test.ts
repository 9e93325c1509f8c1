// Goal: the checksum is CRC-32C, whatever the pieces. Method: the published test vectors, a slow reference, and random cuts.
import fc from "fast-check";
import { expect, it } from "vitest";
import { base64Of, crc32c } from "../../src/crc32c.js";

/** Bit by bit, as the definition has it. */
function reference(bytes: Uint8Array): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  }
  return ~crc >>> 0;
}

// RFC 3720, B.4.
it.each<[string, Uint8Array, number]>([
  ["32 zeros", new Uint8Array(32), 0x8a9136aa],
  ["32 ones", new Uint8Array(32).fill(0xff), 0x62a8ab43],
  ["32 that grow", Uint8Array.from({ length: 32 }, (_, i) => i), 0x46dd794e],
  ["32 that fall", Uint8Array.from({ length: 32 }, (_, i) => 31 - i), 0x113fdb5c],
  ["nothing", new Uint8Array(0), 0],
])("%s", (_what, bytes, crc) => expect(crc32c(bytes)).toBe(crc));

it("as GCS writes it", () => {
  expect(base64Of(crc32c(Buffer.from("hello")))).toBe("mnG7TA==");
  expect(base64Of(0)).toBe("AAAAAA==");
});

it("of any bytes in any pieces it is the reference's", () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 300 }), fc.nat(300), (bytes, cut) => {
      const pieces = crc32c(bytes.subarray(cut), crc32c(bytes.subarray(0, cut)));
      return crc32c(bytes) === reference(bytes) && pieces === reference(bytes);
    }),
  );
});
