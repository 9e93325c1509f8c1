/** How a query ended; `running` has not. */
export type QueryOutcome = "running" | "finished" | "failed" | "canceled";

/** One entry of the log of recent queries. JSON-safe. Texts are cut at 8 KiB; values of query parameters and bodies are not kept. */
export interface RecentQuery {
  readonly queryId: string;
  readonly query: string;
  /** As sent with the request, before the server changed any. */
  readonly settings: Readonly<Record<string, string>>;
  readonly paramNames: readonly string[];
  readonly database: string;
  readonly sessionId: string | null;
  readonly userAgent: string;
  readonly startedAtMs: number;
  /** From its arrival until it got a slot; null while it has none. */
  readonly waitedMs: number | null;
  readonly elapsedMs: number;
  readonly outcome: QueryOutcome;
  readonly errorCode: number;
  readonly errorText: string;
  readonly readRows: number;
  readonly writtenRows: number;
}

const textMax = 8192;
const cut = (text: string): string => (text.length > textMax ? `${text.slice(0, textMax)}…` : text);

/** Keeps the last `size` queries, since the engine has no query_log. */
export class RecentLog {
  readonly #entries = new Map<number, RecentQuery>();
  readonly #size: number;
  #next = 0;

  constructor(size: number) {
    this.#size = size;
  }

  /** Adds an entry and returns the function that changes it. */
  add(entry: RecentQuery): (change: Partial<RecentQuery>) => void {
    const key = this.#next++;
    const set = (e: RecentQuery): void => {
      this.#entries.set(key, { ...e, query: cut(e.query), errorText: cut(e.errorText) });
    };
    set(entry);
    this.#entries.delete(key - this.#size);
    return (change) => {
      const old = this.#entries.get(key);
      if (old !== undefined) set({ ...old, ...change });
    };
  }

  /** Oldest first. */
  list(): readonly RecentQuery[] {
    return [...this.#entries.values()];
  }
}
