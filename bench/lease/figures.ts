// What a series of measurements comes to.

export interface Figures {
  readonly count: number;
  readonly median: number;
  readonly p99: number;
  readonly max: number;
}

const sorted = (values: readonly number[]): number[] => [...values].sort((a, b) => a - b);

export function figuresOf(values: readonly number[]): Figures {
  const all = sorted(values);
  const quantile = (q: number): number => all[Math.max(0, Math.ceil(q * all.length) - 1)] ?? NaN;
  return { count: all.length, median: quantile(0.5), p99: quantile(0.99), max: quantile(1) };
}

/** The median of a sample, and the interval that has the true median in it with 95 %: from order statistics, so whatever the distribution. */
export interface MedianInterval {
  readonly median: number;
  readonly low: number;
  readonly high: number;
}

export function medianInterval(values: readonly number[]): MedianInterval {
  const all = sorted(values);
  const { length } = all;
  // The rank of the true median is binomial (length, 1/2): 1.96 standard deviations to either side of its middle.
  const half = 0.98 * Math.sqrt(length);
  const at = (rank: number): number => all[Math.min(length - 1, Math.max(0, rank))] ?? NaN;
  return {
    median: at(length >> 1),
    low: at(Math.floor(length / 2 - half) - 1),
    high: at(Math.ceil(length / 2 + half)),
  };
}

export const round = (n: number): number => Number(n.toFixed(3));
