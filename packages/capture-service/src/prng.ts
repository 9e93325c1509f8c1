/** The ambient source of randomness, named in this one place; everything else takes an injected one. */
export const systemRandom = (): number => Math.random();
