/** The first line and the header fields of an HTTP/1.1 message. */
export interface Head {
  /** The three parts of the first line: method, target, version; or version, status, reason. */
  readonly line: readonly [string, string, string];
  /** By name in small letters; repeated fields are joined with a comma. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Reads a head (its last empty line included or not). It is lenient: what has no colon is skipped. */
export function parseHead(bytes: Buffer): Head {
  const [first = "", ...lines] = bytes.toString("latin1").split(/\r?\n/);
  const [one = "", two = "", ...rest] = first.split(" ");
  const headers: Record<string, string> = {};
  for (const line of lines) {
    const colon = line.indexOf(":");
    if (colon < 1) continue;
    const name = line.slice(0, colon).trim().toLowerCase();
    const value = line.slice(colon + 1).trim();
    headers[name] = headers[name] === undefined ? value : `${headers[name]}, ${value}`;
  }
  return { line: [one, two, rest.join(" ")], headers };
}

/** The same head without one header field. */
export function withoutHeader(bytes: Buffer, name: string): Buffer {
  const lines = bytes.toString("latin1").split("\r\n");
  const kept = lines.filter((line, at) => at === 0 || !line.toLowerCase().startsWith(`${name}:`));
  return Buffer.from(kept.join("\r\n"), "latin1");
}

/** How the body that follows a head ends. */
export type BodyFrame =
  { readonly kind: "length"; readonly bytes: number } | { readonly kind: "chunked" } | { readonly kind: "close" };

const none: BodyFrame = { kind: "length", bytes: 0 };

const isChunked = (head: Head): boolean => /(^|,)\s*chunked\s*$/i.test(head.headers["transfer-encoding"] ?? "");

const contentLength = (head: Head): number | undefined => {
  const text = head.headers["content-length"];
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
};

/** The body of a request: chunked, by length, or none. */
export function requestFrame(head: Head): BodyFrame {
  if (isChunked(head)) return { kind: "chunked" };
  return { kind: "length", bytes: contentLength(head) ?? 0 };
}

/** The body of an answer to a request of this method; `null`: a 1xx, after which the real head follows. */
export function answerFrame(head: Head, method: string): BodyFrame | null {
  const status = Number(head.line[1]);
  if (status === 101) return { kind: "close" };
  if (status >= 100 && status < 200) return null;
  if (method === "HEAD" || status === 204 || status === 304) return none;
  if (isChunked(head)) return { kind: "chunked" };
  const bytes = contentLength(head);
  return bytes === undefined ? { kind: "close" } : { kind: "length", bytes };
}
