/** The machine's wall clock, for the stamps that people read. */
export const systemWallClock: { wallMs(): number } = { wallMs: () => Date.now() };
