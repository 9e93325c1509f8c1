/** The body of a good answer was not good: an exception in it, or no proof that it is whole. */
export class ResponseBodyError extends Error {
  constructor(
    text: string,
    readonly serverCode?: number,
    cause?: unknown,
  ) {
    super(text, cause === undefined ? undefined : { cause });
  }
}

/** What the headers and the statement say about a body. */
export interface BodyFacts {
  readonly format: string | null;
  /** From the header `X-ClickHouse-Exception-Tag`: random, so a body that holds it holds an exception. */
  readonly tag: string | undefined;
  /** Content-Length or chunked: the transport itself tells a whole body from a cut one. */
  readonly framed: boolean;
  /** The statement writes: it answers nothing but, perhaps, an exception. */
  readonly write: boolean;
  /** The server waited for the end, and the statement speaks of exceptions or errors: text that looks like one is data. */
  readonly exceptionsAreData: boolean;
}

/** Looks at the bytes on their way and passes on those that are surely data; throws {@link ResponseBodyError}. */
export interface BodyCheck {
  push(chunk: Buffer): Buffer[];
  end(): Buffer[];
  /** The transport broke: an exception that the server wrote before, if there is one. */
  broken(): ResponseBodyError | null;
}

const newline = 0x0a;
const tailBytes = 64 * 1024;
const exceptionText = /(?:^|\n|"|\r)(?:Code|Error): (\d+)\. DB::[\w:]*Exception: ([^\n]*)/;

/** The exception in a text, if one begins a line or a JSON string in it. */
function exceptionIn(text: string): ResponseBodyError | null {
  const found = exceptionText.exec(text);
  if (!found) return null;
  return new ResponseBodyError(
    `the server reported an exception in the body of a good answer: code ${found[1] ?? ""}: ${(found[2] ?? "").slice(0, 500)}`,
    Number(found[1]),
  );
}

const cut = (what: string): ResponseBodyError => new ResponseBodyError(`the answer is not whole: ${what}`);

/** The last bytes of a body, without copying what passes by. */
class Tail {
  #chunks: Buffer[] = [];
  #bytes = 0;
  total = 0;

  push(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.#bytes += chunk.length;
    this.total += chunk.length;
    for (let first = this.#chunks[0]; first && this.#bytes - first.length >= tailBytes; first = this.#chunks[0]) {
      this.#bytes -= first.length;
      this.#chunks.shift();
    }
  }

  text(): string {
    return Buffer.concat(this.#chunks).subarray(-tailBytes).toString();
  }
}

/** How a server that writes exceptions in the format of the rows begins such a row. */
const exceptionRows = ['{"exception":', '["Code: '].map((text) => Buffer.from(text));
const rowStarts = new Set(["{", "[", "]", "\n"].map((c) => c.charCodeAt(0)));
/** A longer row under that key is data: the server's messages are not of this size. */
const longestException = 1024 * 1024;
const nothing = Buffer.alloc(0);

/**
 * One JSON value per line. A line that does not begin like one is the server's exception text. A line that begins as an
 * exception row does is kept back until the next one shows that it was data: such a row is always the last.
 */
export class JsonRowsCheck implements BodyCheck {
  readonly #facts: BodyFacts;
  /** The line that cannot be judged yet, from its first byte. */
  #kept: Buffer = nothing;
  #bad: Tail | null = null;
  #atLineStart = true;
  #likeItBefore = false;

  constructor(facts: BodyFacts) {
    this.#facts = facts;
  }

  push(chunk: Buffer): Buffer[] {
    if (this.#bad) {
      this.#bad.push(chunk);
      return [];
    }
    const data = this.#kept.length > 0 ? Buffer.concat([this.#kept, chunk]) : chunk;
    this.#kept = nothing;
    const good = this.#scan(data);
    return good > 0 ? [data.subarray(0, good)] : [];
  }

  /** How many bytes may pass; the rest is kept or bad. */
  #scan(data: Buffer): number {
    let at = this.#atLineStart ? 0 : nextLine(data, 0);
    while (at < data.length) {
      if (!rowStarts.has(data[at] ?? 0)) {
        this.#bad = new Tail();
        this.#bad.push(data.subarray(at));
        return at;
      }
      const next = nextLine(data, at);
      if (next === data.length && next - at <= longestException && mayBeException(data, at)) {
        this.#kept = data.subarray(at);
        this.#atLineStart = true;
        return at;
      }
      if (mayBeException(data, at)) this.#likeItBefore = true;
      at = next;
    }
    if (data.length > 0) this.#atLineStart = data[data.length - 1] === newline;
    return data.length;
  }

  end(): Buffer[] {
    if (this.#bad) {
      const text = this.#bad.text();
      throw exceptionIn(text) ?? cut(`a line of it is no JSON: ${JSON.stringify(text.slice(0, 120))}`);
    }
    const line = this.#kept.toString();
    const exception = line !== "" && this.#isException(line) ? exceptionIn(line) : null;
    if (exception) throw exception;
    if (line === "" ? !this.#atLineStart : !line.endsWith("\n")) throw cut("its last row has no end");
    if (!this.#facts.framed) throw cut("it came without a length, so its end proves nothing");
    return line === "" ? [] : [this.#kept];
  }

  broken(): ResponseBodyError | null {
    if (this.#bad) return exceptionIn(this.#bad.text());
    const line = this.#kept.toString();
    return this.#isException(line) ? exceptionIn(line) : null;
  }

  #isException(line: string): boolean {
    if (this.#likeItBefore || this.#facts.exceptionsAreData) return false;
    try {
      const row: unknown = JSON.parse(line);
      // One key, or one element.
      return typeof row === "object" && row !== null && Object.keys(row).length === 1;
    } catch {
      return false;
    }
  }
}

/** The line at `at`, as far as it is there, begins like an exception row. */
const mayBeException = (data: Buffer, at: number): boolean =>
  exceptionRows.some((start) => {
    const head = data.subarray(at, at + start.length);
    return start.subarray(0, head.length).equals(head);
  });

const nextLine = (data: Buffer, from: number): number => {
  const end = data.indexOf(newline, from);
  return end === -1 ? data.length : end + 1;
};

/** A body that is judged by its end: one JSON document, or text whose form is not known. */
class TailCheck implements BodyCheck {
  protected readonly tail = new Tail();

  constructor(protected readonly facts: BodyFacts) {}

  push(chunk: Buffer): Buffer[] {
    this.tail.push(chunk);
    return [chunk];
  }

  end(): Buffer[] {
    return [];
  }

  broken(): ResponseBodyError | null {
    const text = this.tail.text();
    const tagged = taggedAt(text, this.facts.tag);
    return exceptionIn(tagged === -1 ? text.slice(text.lastIndexOf("\nCode: ") + 1) : text.slice(tagged));
  }
}

const taggedAt = (text: string, tag: string | undefined): number =>
  tag === undefined ? -1 : text.indexOf(`__exception__\r\n${tag}`);

/** JSON, JSONCompact …: whole when it ends with the brace; an exception is the last key of the document. */
export class JsonDocumentCheck extends TailCheck {
  override end(): Buffer[] {
    const text = this.tail.text().trimEnd();
    if (!text.endsWith("}")) throw exceptionIn(text) ?? cut("its JSON document has no end");
    const last = /"exception":\s*("Code: (?:[^"\\]|\\.)*")\s*\}$/.exec(text);
    const exception = last ? exceptionIn(last[1] ?? "") : null;
    if (exception) throw exception;
    return [];
  }
}

/** CSV, TSV and whatever `exec` and `command` answer. */
export class RawCheck extends TailCheck {
  override end(): Buffer[] {
    const text = this.tail.text();
    const tagged = taggedAt(text, this.facts.tag);
    if (tagged !== -1) throw exceptionIn(text.slice(tagged)) ?? cut("the server reported an exception in it");
    // In rows of text only the whole shape of the server's message counts: a first column may hold such words.
    if (this.facts.write || (!this.facts.exceptionsAreData && /\(version [^\n]*\)\s*$/.test(text))) {
      const exception = exceptionIn(text);
      if (exception) throw exception;
    }
    if (this.tail.total > 0 && !this.facts.framed) throw cut("it came without a length, so its end proves nothing");
    return [];
  }
}

const rowFormat = /^JSON\w*EachRow/;

/** For a body that the caller wants as it came: compressed, or whatever the server answered. */
export const noCheck: BodyCheck = { push: (chunk) => [chunk], end: () => [], broken: () => null };

/** The check that a format allows. */
export function bodyCheck(facts: BodyFacts): BodyCheck {
  const { format } = facts;
  if (facts.write || format === null || !format.startsWith("JSON")) return new RawCheck(facts);
  // Despite its name this one is a single document.
  return rowFormat.test(format) && format !== "JSONObjectEachRow"
    ? new JsonRowsCheck(facts)
    : new JsonDocumentCheck(facts);
}
