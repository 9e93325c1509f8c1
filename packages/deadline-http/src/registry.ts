import { AsyncLocalStorage } from "node:async_hooks";
import type { Clock } from "./clock.js";
import { ConfigError } from "./errors.js";
import type { ScopeNode } from "./scope-node.js";
import { SystemClock } from "./system-clock.js";

/**
 * What an async context carries. A hook frame marks the context that a `beforeRequest` hook opened; everything begun in
 * it is "inside the hook", and nothing else is.
 * @internal
 */
export interface Frame {
  readonly scope: ScopeNode | null;
  readonly hookOf: ScopeNode | null;
  readonly up: Frame | undefined;
  /** The adapter's watch over the requests begun in this context; one storage serves all, as each costs every promise. */
  readonly watch?: object;
}

/**
 * Shared by every copy of this package in the process, so that a deadline set through one binds a request made through
 * another. The clock is in it because instants of two clocks do not compare.
 */
interface Registry {
  readonly major: 1;
  readonly frames: AsyncLocalStorage<Frame | undefined>;
  readonly clock: Clock;
}

const prefix = "holdfast.deadline.v";
const key = Symbol.for(`${prefix}1`);

function load(): Registry {
  const holder: { [key]?: Registry | undefined } & object = globalThis;
  const foreign = Object.getOwnPropertySymbols(globalThis)
    .map((symbol) => Symbol.keyFor(symbol))
    .find((name) => name?.startsWith(prefix) === true && name !== Symbol.keyFor(key));
  const major: number | undefined = holder[key]?.major;
  if (foreign !== undefined || (major !== undefined && major !== 1)) {
    throw new ConfigError(
      `this process already holds ${foreign ?? `a deadline registry of major ${major}`}, and @holdfast/deadline-http ` +
        `here is of major 1: the two would not see each other's deadlines; install one version (npm ls @holdfast/deadline-http)`,
    );
  }
  return (holder[key] ??= { major: 1, frames: new AsyncLocalStorage(), clock: new SystemClock() });
}

const registry = load();

/** @internal */
export const frames = registry.frames;

/**
 * Runs `fn` where {@link watchHere} finds `watch`; scopes and hooks are those of the caller. A scope entered inside hides it.
 * @internal
 */
export function runWatched<T>(watch: object, fn: () => T): T {
  const frame = frames.getStore();
  return frames.run({ scope: frame?.scope ?? null, hookOf: null, up: frame, watch }, fn);
}

/**
 * The watch that this context began under, when it is one of this kind.
 * @internal
 */
export function watchHere<W extends object>(kind: abstract new (...args: never[]) => W): W | null {
  const watch = frames.getStore()?.watch;
  return watch instanceof kind ? watch : null;
}

/** The machine's clock: monotonic plus time asleep. One per process, whatever number of copies is installed. */
export const systemClock: Clock = registry.clock;
