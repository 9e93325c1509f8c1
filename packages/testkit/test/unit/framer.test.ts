// Goal: borders of messages are found wherever the bytes are split, and no byte is changed or lost. Method: streams of
// known messages, pushed whole, byte by byte, and split at every place.
import { describe, expect, it } from "vitest";
import { Framer } from "../../src/http/framer.js";
import { answerFrame, parseHead, requestFrame, withoutHeader } from "../../src/http/head.js";

interface Seen {
  line: string;
  bytes: number;
  raw: string;
  payload: string;
  ended: boolean;
}

function read(parts: readonly string[], methods: readonly string[] | null): { seen: Seen[]; torn: string } {
  const seen: Seen[] = [];
  const last = (): Seen => seen.at(-1)!;
  const framer = new Framer({
    start: () => seen.push({ line: "", bytes: 0, raw: "", payload: "", ended: false }),
    received: (bytes) => (last().bytes += bytes),
    head: (head, raw) => {
      last().line = head.line.join(" ");
      last().raw += raw.toString("latin1");
      return methods === null ? requestFrame(head) : answerFrame(head, methods[seen.length - 1] ?? "GET");
    },
    raw: (bytes) => (last().raw += bytes.toString("latin1")),
    payload: (bytes) => (last().payload += bytes.toString("latin1")),
    end: () => (last().ended = true),
  });
  for (const part of parts) framer.push(Buffer.from(part, "latin1"));
  return { seen, torn: framer.close().toString("latin1") };
}

const requests = [
  "GET /a HTTP/1.1\r\nHost: x\r\n\r\n",
  "POST /b HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
  "POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;sign=x\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: y\r\n\r\n",
  "PUT /d HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
  "POST /e HTTP/1.1\r\ntransfer-encoding: gzip, Chunked\r\n\r\n0\r\n\r\n",
];
const payloads = ["", "hello", "abc0123456789", "", ""];

const answers = [
  "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
  "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx",
  "HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n",
  "HTTP/1.1 204 No Content\r\n\r\n",
  "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n",
  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
  "HTTP/1.1 200 OK\r\n\r\nuntil the end\r\n\r\nof all",
];
const methods = ["GET", "PUT", "HEAD", "DELETE", "GET", "GET", "GET"];

const splits = (text: string): string[][] => [
  [text],
  Array.from(text, (one) => one),
  ...Array.from(text, (_, at) => [text.slice(0, at), text.slice(at)]),
];

describe("requests", () => {
  it("DL-32 every split of five kept-alive requests gives the same five", () => {
    for (const parts of splits(requests.join(""))) {
      const { seen, torn } = read(parts, null);
      expect(torn).toBe("");
      expect(seen.map((s) => s.raw)).toEqual(requests);
      expect(seen.map((s) => s.payload)).toEqual(payloads);
      expect(seen.map((s) => s.bytes)).toEqual(requests.map((r) => r.length));
      expect(seen.every((s) => s.ended)).toBe(true);
    }
  });

  it("DL-32 a torn head is given back, a torn body is not ended, empty lines between requests belong to none", () => {
    expect(read(["GET / HT"], null)).toMatchObject({ torn: "GET / HT", seen: [{ bytes: 8, ended: false }] });
    expect(read([requests[1]!.slice(0, -1)], null).seen).toMatchObject([{ payload: "hell", ended: false }]);
    expect(read([`\r\n${requests[0]!}\r\n\r\n${requests[0]!}`], null).seen).toHaveLength(2);
  });
});

describe("answers", () => {
  it("DL-32 every split of answers of every framing gives the same ones, 1xx included", () => {
    for (const parts of splits(answers.join(""))) {
      const { seen } = read(parts, methods);
      expect(seen.map((s) => s.raw)).toEqual(answers);
      expect(seen.map((s) => s.ended)).toEqual(answers.map(() => true));
      expect(seen.at(-1)!.payload).toBe("until the end\r\n\r\nof all");
    }
  });
});

describe("heads", () => {
  it("DL-32 names in small letters, repeated fields joined, one field taken out", () => {
    const raw = Buffer.from("POST /x?y=1 HTTP/1.1\r\nA: 1\r\na:2\r\nExpect: 100-continue\r\nB: c:d\r\n\r\n");
    expect(parseHead(raw)).toEqual({
      line: ["POST", "/x?y=1", "HTTP/1.1"],
      headers: { a: "1, 2", expect: "100-continue", b: "c:d" },
    });
    expect(withoutHeader(raw, "expect").toString()).toBe("POST /x?y=1 HTTP/1.1\r\nA: 1\r\na:2\r\nB: c:d\r\n\r\n");
  });
});
