/** Ends what hangs. Far above what a busy machine needs, so that no machine's speed decides a test; less where a fault is put in, whose test hangs. */
const hangMs = Number(process.env["HOLDFAST_HANG_MS"] ?? 300_000);

/** Waits for a condition that something else brings about; fails by its name after five minutes. */
export async function until(what: string, condition: () => boolean | Promise<boolean>, everyMs = 10): Promise<void> {
  const end = performance.now() + hangMs;
  while (!(await condition())) {
    if (performance.now() > end) throw new Error(`${what}: not within ${hangMs} ms`);
    await new Promise((resolve) => setTimeout(resolve, everyMs));
  }
}
