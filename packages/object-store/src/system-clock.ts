/** The machine's wall clock, for the stamps that people read. */
export const systemWallClock: { wallMs(): number } = { wallMs: () => Date.now() };

/** A signal that is aborted after this many ms of real time; `cancel` takes its timer away, which keeps no process alive. */
export function abortedAfter(ms: number): { readonly signal: AbortSignal; cancel(): void } {
  const end = new AbortController();
  const timer = setTimeout(() => end.abort(), ms);
  timer.unref();
  return { signal: end.signal, cancel: () => clearTimeout(timer) };
}
