import { defineCaptureSchema } from "@holdfast/pack-format";

export const crashSchema = (name: string) =>
  defineCaptureSchema({
    name,
    version: 1,
    fields: { kind: "LowCardinality(String)", step: "UInt64" },
    orderBy: ["kind"],
  });

/** A payload that its id decides, so that whoever reads it back can tell. */
export function payloadOf(captureId: string): Uint8Array {
  const bytes = new Uint8Array(200 + (captureId.length % 7) * 100);
  let state = Array.from(captureId).reduce((sum, char) => (sum * 31 + char.charCodeAt(0)) >>> 0, 17);
  for (let i = 0; i < bytes.length; i += 1) {
    state = (state * 1664525 + 1013904223) >>> 0;
    bytes[i] = state >>> 24;
  }
  return bytes;
}
