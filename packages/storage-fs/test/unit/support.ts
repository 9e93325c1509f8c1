// Instruments: a fresh directory per test, and an Io that records every operation and can fail or hold one.
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { onTestFinished } from "vitest";
import { systemIo, type Io } from "../../src/file-ops.js";

export const open: AbortSignal = new AbortController().signal;
export const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

/** A directory that is gone after the test; the store goes into its sub-folder `store`, which does not exist yet. */
export async function freshDirectory(): Promise<string> {
  const above = await mkdtemp(join(tmpdir(), "holdfast-fs-"));
  onTestFinished(() => rm(above, { recursive: true, force: true }));
  return join(above, "store");
}

export type Recorder = {
  readonly io: Io;
  /** `op path`, in the order in which operations ended well; the path seen from `base`. */
  readonly trace: string[];
  /** The most operations that were in flight at once. */
  readonly peak: () => number;
  /** The next operation of this name whose path matches ends as the system's error `code` would end it, without being done. */
  failNext(op: string, path: RegExp, code: string): void;
  /** The next such operation is not done, and answers this. */
  answerNext(op: string, path: RegExp, answer: unknown): void;
  /** The next such operation is done, and its answer is lost: it ends with the error. */
  loseNext(op: string, path: RegExp, code: string): void;
  /** The next such operation is not done before `release` is called; `reached` resolves when it is asked for. */
  holdNext(op: string, path: RegExp): { reached: Promise<void>; release(): void };
};

export function recorder(base: string): Recorder {
  const trace: string[] = [];
  let running = 0;
  let peak = 0;
  const rules: { op: string; path: RegExp; before?: () => Promise<void>; lose?: Error; answer?: unknown }[] = [];
  const io: Io = async <T>(op: string, path: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> => {
    const at = rules.findIndex((rule) => rule.op === op && rule.path.test(path));
    const [rule] = at < 0 ? [] : rules.splice(at, 1);
    const guarded = async () => {
      running++;
      peak = Math.max(peak, running);
      try {
        await rule?.before?.();
        const result = rule?.answer === undefined ? await work() : (rule.answer as T);
        if (rule?.lose !== undefined) throw rule.lose;
        return result;
      } finally {
        running--;
      }
    };
    const result = await systemIo(op, path, guarded, signal);
    trace.push(`${op} ${relative(base, path) || "."}`);
    return result;
  };
  return {
    io,
    trace,
    peak: () => peak,
    failNext(op, path, code) {
      rules.push({ op, path, before: () => Promise.reject(systemError(code)) });
    },
    answerNext(op, path, answer) {
      rules.push({ op, path, answer });
    },
    loseNext(op, path, code) {
      rules.push({ op, path, lose: systemError(code) });
    },
    holdNext(op, path) {
      let arrive = (): void => undefined;
      let release = (): void => undefined;
      const reached = new Promise<void>((resolve) => (arrive = resolve));
      const held = new Promise<void>((resolve) => (release = resolve));
      const before = () => {
        arrive();
        return held;
      };
      rules.push({ op, path, before });
      return { reached, release: () => release() };
    },
  };
}

const systemError = (code: string): Error => Object.assign(new Error(code), { code });

/** The half-written files that are left in a store. */
export async function stagedFiles(directory: string): Promise<string[]> {
  return readdir(join(directory, ".staging"));
}

/** Resolves in a turn in which the condition holds; file operations make progress between two looks. */
export async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
}
