/** What a benchmark is told on the command line. */
export interface BenchmarkOptions {
  readonly quick: boolean;
  readonly directory: string | undefined;
  /** Which store, for a benchmark that knows several; undefined: its default. */
  readonly store: string | undefined;
}

/** A benchmark: measures in `directory`, prints its table, answers the object for the JSON line. */
export type Benchmark = (o: BenchmarkOptions) => Promise<Record<string, number>>;
