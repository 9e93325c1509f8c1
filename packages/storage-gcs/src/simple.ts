import { randomBytes } from "node:crypto";
import { uploadAddress } from "./api.js";
import { openBody } from "./body.js";
import type { Settings } from "./options.js";
import { conditionOf, describe, plainType, type Put } from "./put-state.js";
import { ask, type Answer, type Attempted, type OpenedParts } from "./requests.js";

/** Up to here a body in memory is sent together with its description, with a length; above, it flows. */
const joinedBytes = 1 << 20;
const jsonType = "application/json; charset=UTF-8";

/** One object in one request: its description, then its bytes. */
export function uploadWhole(s: Settings, put: Put, crc32c: string): Promise<Attempted<Answer>> {
  const { mode, contentType = plainType } = put.options;
  const address = uploadAddress(s, { uploadType: "multipart", name: s.keyPrefix + put.key, ...conditionOf(mode) });
  const description = describe(s, put, crc32c);
  const request = {
    what: `PUT of ${JSON.stringify(put.key)}`,
    signal: put.signal,
    method: "POST",
    address,
    absent: typeof mode === "object" ? "object" : "bucket",
    conditional: mode !== "overwrite",
    progress: put.progress,
  } as const;
  if (put.body instanceof Uint8Array && put.body.byteLength <= joinedBytes) {
    // A line that no body contains.
    const boundary = `holdfast-${randomBytes(18).toString("hex")}`;
    const headers = { "Content-Type": `multipart/related; boundary=${boundary}` };
    return ask(s, { ...request, headers, body: joined(boundary, description, contentType, put.body) });
  }
  const open = (): OpenedParts => {
    const { stream, failed, close } = openBody(put.body, put.signal);
    const parts = [
      { "Content-Type": jsonType, body: description },
      { "Content-Type": contentType, body: stream },
    ] as const;
    return { parts, failed, close };
  };
  return ask(s, { ...request, body: open });
}

function joined(boundary: string, description: string, contentType: string, bytes: Uint8Array): Buffer {
  const head = `--${boundary}\r\nContent-Type: ${jsonType}\r\n\r\n${description}\r\n--${boundary}\r\nContent-Type: ${contentType}\r\n\r\n`;
  return Buffer.concat([Buffer.from(head), bytes, Buffer.from(`\r\n--${boundary}--\r\n`)]);
}
