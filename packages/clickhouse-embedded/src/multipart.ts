import { QueryError } from "./clickhouse-errors.js";
import type { RequestBody } from "./request-body.js";

const formBytesMax = 16 * 1024 * 1024;

/** The boundary of a multipart form, or null when the body is something else. */
export function formBoundary(contentType: string | undefined): string | null {
  if (contentType === undefined || !/^multipart\/form-data\s*(?:;|$)/i.test(contentType)) return null;
  const match = /;\s*boundary=(?:"([^"]+)"|([^;\s]+))/i.exec(contentType);
  const boundary = match?.[1] ?? match?.[2];
  if (boundary === undefined) throw QueryError.of(36, "The multipart form has no boundary.");
  return boundary;
}

/** Reads the text fields of a form (`query`, `param_*`): at most 16 MiB. Files (external tables) are an error 48. */
export async function readForm(body: RequestBody, boundary: string): Promise<[string, string][]> {
  const { bytes, complete } = await body.head(formBytesMax);
  if (!complete) throw QueryError.of(36, `The multipart form is larger than ${formBytesMax} bytes.`);
  const delimiter = Buffer.from(`\r\n--${boundary}`);
  // The first delimiter has no line end before it; with one added all are alike.
  const form = Buffer.concat([Buffer.from("\r\n"), bytes]);
  const fields: [string, string][] = [];
  let start = -1;
  for (let at = form.indexOf(delimiter); at >= 0; at = form.indexOf(delimiter, at + 1)) {
    // What only begins like a delimiter is text.
    const next = form.subarray(at + delimiter.length, at + delimiter.length + 2).toString("latin1");
    if (next !== "\r\n" && next !== "--") continue;
    if (start >= 0) fields.push(readPart(form.subarray(start, at)));
    start = at + delimiter.length;
    if (next === "--") break;
  }
  return fields;
}

function readPart(part: Buffer): [string, string] {
  const gap = part.indexOf("\r\n\r\n");
  const headers = part.subarray(0, Math.max(0, gap)).toString("utf8");
  const name = /^content-disposition:[^\r\n]*;\s*name="([^"]*)"/im.exec(headers)?.[1];
  if (name === undefined) throw QueryError.of(36, "A part of the multipart form has no name.");
  if (/^content-disposition:[^\r\n]*;\s*filename=/im.test(headers)) {
    throw QueryError.of(48, `External tables are not supported on an embedded server (file '${name}').`);
  }
  return [name, part.subarray(gap + 4).toString("utf8")];
}
