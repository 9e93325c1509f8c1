/**
 * Resolves after this many ms, counted only while the process is running: in a hundred short steps, so that a time in which the machine does not
 * run the process counts as one step. So what a busy machine holds up is not taken for a call that never ends. `cancel` lets the process end before.
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
