/** Resolves after this many ms of real time; `cancel` lets the process end before. */
export function systemTimer(ms: number): { readonly over: Promise<void>; cancel(): void } {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => (timer = setTimeout(resolve, ms)));
  return { over, cancel: () => clearTimeout(timer) };
}
