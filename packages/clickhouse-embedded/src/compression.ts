import type { Duplex } from "node:stream";
import * as zlib from "node:zlib";

/** A compressor and its name in Content-Encoding. */
export type Encoder = { readonly name: string; readonly stream: Duplex };

/** Undoes a Content-Encoding; null when this server does not know it. */
export function decoderFor(encoding: string): Duplex | null {
  switch (encoding) {
    case "gzip":
    case "x-gzip":
      return zlib.createGunzip();
    case "deflate":
      return zlib.createInflate();
    case "br":
      return zlib.createBrotliDecompress();
    default:
      return null;
  }
}

// Fast rather than small: the other end is on the same machine.
const level = 3;

/** The compressor for what a request accepts, or null. */
export function encoderFor(acceptEncoding: string): Encoder | null {
  const accepted = acceptEncoding.split(",").map((part) => part.split(";")[0]?.trim().toLowerCase());
  if (accepted.includes("gzip")) return { name: "gzip", stream: zlib.createGzip({ level }) };
  if (accepted.includes("br")) {
    const params = { [zlib.constants.BROTLI_PARAM_QUALITY]: level };
    return { name: "br", stream: zlib.createBrotliCompress({ params }) };
  }
  if (accepted.includes("deflate")) return { name: "deflate", stream: zlib.createDeflate({ level }) };
  return null;
}
