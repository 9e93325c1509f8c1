import { AsyncResource } from "node:async_hooks";
import { setFlagsFromString } from "node:v8";
import type { Machine } from "./machine.js";

setFlagsFromString("--allow-natives-syntax");
/**
 * Runs all microtasks, at once: what Node does after each callback, without giving up the thread. Works from a macrotask only
 * (a module is evaluated in a microtask).
 */
// eslint-disable-next-line @typescript-eslint/no-implied-eval -- the syntax is a flag of V8, which no parser knows
const runMicrotasks = new Function("return %PerformMicrotaskCheckpoint()") as () => void;

let running: Machine | null = null;

/** One callback of a machine's event loop and the microtasks that follow it. */
export function runTurn(machine: Machine, task: () => void): void {
  running = machine;
  try {
    task();
    runMicrotasks();
  } finally {
    running = null;
  }
}

/** A callback that runs in the async context that asked for it, as with Node's own timers. */
export function inThisContext(callback: () => void): () => void {
  const resource = new AsyncResource("SimTask", { requireManualDestroy: true });
  return () => resource.runInAsyncScope(callback);
}

const realImmediate = globalThis.setImmediate;

/** Runs `fn` while immediates belong to the loop of the machine whose turn sets them: there is no real loop in a run. */
function withVirtualImmediates<T>(fn: () => T): T {
  const immediate = (callback: () => void): unknown => {
    if (running === null) throw new Error("setImmediate was called outside every machine's turn");
    running.immediate(inThisContext(callback));
    return {};
  };
  try {
    Object.assign(globalThis, { setImmediate: immediate });
    return fn();
  } finally {
    Object.assign(globalThis, { setImmediate: realImmediate });
  }
}

/** Runs `fn` in a macrotask of its own; nothing else happens until it has returned. */
export function inMacrotask<T>(fn: () => T): Promise<T> {
  return new Promise((resolve, reject) => {
    realImmediate(() => {
      try {
        resolve(withVirtualImmediates(fn));
      } catch (error) {
        reject(error instanceof Error ? error : new Error(String(error)));
      }
    });
  });
}
