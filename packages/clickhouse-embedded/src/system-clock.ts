/** The time that the server needs: injectable, so that tests own it. Milliseconds. */
export interface ServerClock {
  /** Monotonic. */
  nowMs(): number;
  /** Since 1970; for the log of recent queries only. */
  wallMs(): number;
  /** Calls back once after `ms`; does not keep the process alive. */
  after(ms: number, callback: () => void): { cancel(): void };
}

/** The machine's clocks. */
export const systemClock: ServerClock = {
  nowMs: () => performance.now(),
  wallMs: () => Date.now(),
  after(ms, callback) {
    const timer = setTimeout(callback, ms);
    timer.unref();
    return { cancel: () => clearTimeout(timer) };
  },
};
