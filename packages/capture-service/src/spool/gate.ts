/** Lets a fixed number of operations run at once; the others wait in the order in which they came. */
export interface Gate {
  run<T>(operation: () => Promise<T>): Promise<T>;
  /** The most operations that were ever in flight together. */
  readonly peak: number;
}

/** A gate of `slots` places. Only leaf operations may pass it: holding a place while waiting for another could lock up. */
export function createGate(slots: number): Gate {
  let inFlight = 0;
  let peak = 0;
  const waiting: (() => void)[] = [];
  const leave = (): void => {
    const next = waiting.shift();
    // The place goes straight to the next in line, so `inFlight` does not move.
    if (next === undefined) inFlight -= 1;
    else next();
  };
  return {
    get peak() {
      return peak;
    },
    async run<T>(operation: () => Promise<T>): Promise<T> {
      if (inFlight >= slots) await new Promise<void>((resolve) => waiting.push(resolve));
      else inFlight += 1;
      peak = Math.max(peak, inFlight);
      try {
        return await operation();
      } finally {
        leave();
      }
    },
  };
}

/**
 * The one gate of this process for file and zlib work of the capture service, however many services run in it.
 * libuv has four pool threads and `dns.lookup` needs them too: were all four in a slow fdatasync, a lease renewal could
 * not resolve its server's name.
 */
export const poolGate = createGate(2);
