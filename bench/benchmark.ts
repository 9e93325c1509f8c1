/** A benchmark: measures in `directory`, prints its table, answers the object for the JSON line. */
export type Benchmark = (o: { quick: boolean; directory: string | undefined }) => Promise<Record<string, number>>;
