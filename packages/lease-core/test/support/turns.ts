/** Wall ms, and whether the loss had been told once the event loop had been round after that. */
export type Turn = readonly [at: number, told: boolean];

/**
 * Notes many times a second whether a signal tells the loss, and asks nothing of anybody. Each note is made after a whole turn of the event
 * loop that began after its instant, so every timer that was due by then has run: how busy the machine is makes notes rarer, never wrong.
 */
export function watchTurns(signal: AbortSignal): { readonly turns: readonly Turn[]; after(at: number): Promise<void> } {
  const turns: Turn[] = [];
  const waiting = new Set<() => void>();
  setInterval(() => {
    const at = Date.now();
    setImmediate(() =>
      setTimeout(() =>
        setImmediate(() => {
          turns.push([at, signal.aborted]);
          for (const look of waiting) look();
        }),
      ),
    );
  }, 10);
  return {
    turns,
    /** Resolves when there is a note of that instant or a later one. */
    after: (at) =>
      new Promise((resolve) => {
        const look = () => {
          if ((turns.at(-1)?.[0] ?? 0) < at) return;
          waiting.delete(look);
          resolve();
        };
        waiting.add(look);
      }),
  };
}
