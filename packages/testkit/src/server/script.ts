import type { Reply } from "./reply.js";

/** A request as the server received it. */
export interface ReceivedRequest {
  /** From 1, in the order in which they were complete. */
  readonly number: number;
  /** From 1, in the order of arrival. */
  readonly connection: number;
  /** Which request of its connection, from 1. */
  readonly numberOnConnection: number;
  /** When its first byte was read; ms since the epoch from the monotonic clock, see `nowMs`. */
  readonly firstByteAt: number;
  /** When its last byte was read. */
  readonly lastByteAt: number;
  readonly method: string;
  /** The target with everything; its host is made up. */
  readonly url: URL;
  /** The target as sent. */
  readonly target: string;
  /** Names in small letters. */
  readonly headers: Readonly<Record<string, string>>;
  /** All of the request had come when it was noted: false only for scripts with `afterBodyBytes`. */
  readonly complete: boolean;
  /** The body, chunk sizes taken off: what had come of it. */
  readonly body: Buffer;
  /**
   * For ClickHouse: the `query` parameter, or else the body, without leading space. What scripts match by prefix.
   */
  readonly statement: string;
}

/** An answer, or how to work one out. */
export type Answer = Reply | ((request: ReceivedRequest) => Reply | Promise<Reply>);

/** Which requests a script is for: all that is given must hold. */
export interface Matcher {
  /** Beginning of the statement; capitals and small letters are alike, runs of space as one. */
  readonly statement?: string;
  readonly method?: string;
  /** The path without its query; with a `*` at its end, the beginning of it. */
  readonly path?: string;
}

/** Answers for some requests, used one after the other; the last repeats. */
export interface Script {
  /** Without it, all. */
  readonly on?: Matcher | ((request: ReceivedRequest) => boolean);
  readonly answers: readonly Answer[];
  /**
   * Answers as soon as so many bytes of the body have come (0: at the head, without `100 Continue`), or all of a shorter one; the
   * rest is read and forgotten. `on` then sees only what has come.
   */
  readonly afterBodyBytes?: number;
}

const plain = (text: string): string => text.trim().replaceAll(/\s+/g, " ").toLowerCase();

/** Whether a script is for this request. */
export function matches(on: Script["on"], request: ReceivedRequest): boolean {
  if (on === undefined) return true;
  if (typeof on === "function") return on(request);
  const { statement, method, path } = on;
  if (method !== undefined && method.toUpperCase() !== request.method) return false;
  if (path !== undefined && !matchesPath(path, request.url.pathname)) return false;
  return (
    statement === undefined ||
    plain(request.statement.slice(0, 4 * statement.length + 256)).startsWith(plain(statement))
  );
}

const matchesPath = (pattern: string, path: string): boolean =>
  pattern.endsWith("*") ? path.startsWith(pattern.slice(0, -1)) : path === pattern;

/** Scripts in order, each with a place in its answers. */
export class Scripts {
  #entries: { readonly script: Script; used: number }[] = [];

  add(script: Script): () => void {
    if (script.answers.length === 0) throw new TypeError("A script needs at least one answer.");
    const entry = { script, used: 0 };
    this.#entries.push(entry);
    return () => {
      this.#entries = this.#entries.filter((e) => e !== entry);
    };
  }

  clear(): void {
    this.#entries = [];
  }

  /** After how many bytes of the body a request with this head is answered; undefined: after the last. */
  early(head: ReceivedRequest): number | undefined {
    return this.#entries.find((e) => matches(e.script.on, head))?.script.afterBodyBytes;
  }

  /** The next answer of the first script that is for this request; undefined when none is. */
  next(request: ReceivedRequest): Answer | undefined {
    const entry = this.#entries.find((e) => matches(e.script.on, request));
    if (entry === undefined) return undefined;
    const { answers } = entry.script;
    return answers[Math.min(entry.used++, answers.length - 1)];
  }
}
