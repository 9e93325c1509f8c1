// Goal: nothing waits past its signal, and nothing is left on the signal. Method: promises that the test settles by hand.
import { getEventListeners } from "node:events";
import { describe, expect, it } from "vitest";
import { abortError, bodyPieces, createLimiter, eachUntilAborted, onAbort, untilAborted } from "@holdfast/object-store";
import { bytesOf, open } from "../support.js";

function gate(): { promise: Promise<void>; open(): void } {
  let release = (): void => undefined;
  const promise = new Promise<void>((resolve) => (release = resolve));
  return { promise, open: () => release() };
}

const listeners = (signal: AbortSignal) => getEventListeners(signal, "abort").length;

describe("abortError", () => {
  it("is the reason when that is an error with a string code, else CANCELED", () => {
    const late = Object.assign(new Error("late"), { code: "DEADLINE_EXCEEDED" });
    expect(abortError(AbortSignal.abort(late))).toBe(late);
    for (const reason of [undefined, "stop", new Error("no code"), new DOMException("x", "TimeoutError")]) {
      expect(abortError(AbortSignal.abort(reason))).toMatchObject({ code: "CANCELED" });
    }
  });
});

describe("onAbort and untilAborted", () => {
  it("keep one listener for a thousand waiters and none when all are done", async () => {
    const { signal } = new AbortController();
    const held = gate();
    const all = Array.from({ length: 1000 }, () => untilAborted(held.promise, signal));
    expect(listeners(signal)).toBe(1);
    held.open();
    await Promise.all(all);
    expect(listeners(signal)).toBe(0);
  });

  it("wake every waiter once, those that began after an abort at once, and not those that left", () => {
    const abort = new AbortController();
    const woken: string[] = [];
    onAbort(abort.signal, () => woken.push("a"));
    onAbort(abort.signal, () => woken.push("b"))();
    onAbort(abort.signal, () => woken.push("c"));
    abort.abort();
    abort.abort();
    onAbort(abort.signal, () => woken.push("d"))();
    expect(woken).toEqual(["a", "c", "d"]);
  });

  it("work that fails after the abort is not an unhandled rejection", async () => {
    const abort = new AbortController();
    const held = gate();
    const work = untilAborted(
      held.promise.then(() => Promise.reject(new Error("late"))),
      abort.signal,
    );
    abort.abort();
    await expect(work).rejects.toMatchObject({ code: "CANCELED" });
    held.open();
    await new Promise((resolve) => setImmediate(resolve));
  });
});

describe("createLimiter", () => {
  // Red when a freed place is counted free and given away too: a newcomer in between then makes three.
  it("never runs more than its number, in the order of asking", async () => {
    const limit = createLimiter(2);
    const started: number[] = [];
    const gates = Array.from({ length: 6 }, gate);
    const run = (i: number) =>
      limit(() => {
        started.push(i);
        return gates[i]!.promise;
      }, open);
    const all = [0, 1, 2, 3].map(run);
    await Promise.resolve();
    expect(started).toEqual([0, 1]);
    gates[1]!.open();
    await all[1];
    all.push(run(4), run(5));
    await new Promise((resolve) => setImmediate(resolve));
    expect(started).toEqual([0, 1, 2]);
    for (const one of gates) one.open();
    await Promise.all(all);
    expect(started).toEqual([0, 1, 2, 3, 4, 5]);
  });

  it("whoever is aborted while waiting is not run, and does not cost the next its place", async () => {
    const limit = createLimiter(1);
    const held = gate();
    const abort = new AbortController();
    const first = limit(() => held.promise, open);
    let ran = false;
    const second = limit(() => Promise.resolve((ran = true)), abort.signal);
    const third = limit(() => Promise.resolve("third"), open);
    abort.abort();
    await expect(second).rejects.toMatchObject({ code: "CANCELED" });
    held.open();
    await first;
    expect(await third).toBe("third");
    expect(ran).toBe(false);
    expect(listeners(abort.signal)).toBe(0);
  });

  it("work that fails frees its place", async () => {
    const limit = createLimiter(1);
    await expect(limit(() => Promise.reject(new Error("x")), open)).rejects.toThrow("x");
    expect(await limit(() => Promise.resolve("next"), open)).toBe("next");
  });
});

describe("sources", () => {
  it("a source that never answers is left at the abort, and told to close", async () => {
    const abort = new AbortController();
    const closed = gate();
    const source: AsyncIterable<Uint8Array> = {
      [Symbol.asyncIterator]: () => ({
        next: () => new Promise(() => abort.abort()),
        return: () => {
          closed.open();
          return new Promise(() => undefined);
        },
      }),
    };
    const walk = async () => {
      for await (const piece of eachUntilAborted(source, abort.signal)) expect(piece).toBeUndefined();
    };
    await expect(walk()).rejects.toMatchObject({ code: "CANCELED" });
    await closed.promise;
  });

  it("bytes in memory come in pieces of the asked size, each seen by an abort", async () => {
    const abort = new AbortController();
    const sizes: number[] = [];
    const walk = async () => {
      for await (const piece of bodyPieces(bytesOf("0123456789"), { signal: abort.signal, pieceBytes: 4 })) {
        sizes.push(piece.byteLength);
        if (sizes.length === 2) abort.abort();
      }
    };
    await expect(walk()).rejects.toMatchObject({ code: "CANCELED" });
    expect(sizes).toEqual([4, 4]);
  });
});
