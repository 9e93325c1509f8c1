/**
 * Resolves after this many ms in which this process runs, counted in a hundred short steps: a pause that the machine makes of it counts as
 * one step. So what a busy machine holds up is not taken for a call that never ends. `cancel` lets the process end before.
 */
export function systemTimer(ms: number): { readonly over: Promise<void>; cancel(): void } {
  const stepMs = Math.max(1, ms / 100);
  let timer: NodeJS.Timeout | undefined;
  let left = ms;
  const over = new Promise<void>((resolve) => {
    const step = (): void => {
      left -= stepMs;
      if (left <= 0) resolve();
      else timer = setTimeout(step, stepMs);
    };
    timer = setTimeout(step, stepMs);
  });
  return { over, cancel: () => clearTimeout(timer) };
}
