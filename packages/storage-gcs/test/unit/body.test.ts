// Goal: any part of a body, in any order, is its bytes, and a body of another size is noticed before its last bytes are given.
import { setImmediate as nextTurn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { BodyReader, checksumOf, openBody } from "../../src/body.js";
import { patterned, streamed } from "../support/scripted-gcs.js";

const { signal } = new AbortController();
const whole = patterned(100_000);
const lying = (declared: number) => ({ ...streamed(whole), size: declared });

describe("parts", () => {
  it("forward, again, from the middle of the last, and from the start again", async () => {
    const body = streamed(whole, 7_000);
    const reader = new BodyReader(body, signal);
    const asked = [
      [0, 30_000],
      [30_000, 30_000],
      [30_000, 30_000],
      [45_000, 30_000],
      [75_000, 25_000],
      [10, 20],
      [99_999, 1],
    ] as const;
    for (const [offset, length] of asked) {
      expect((await reader.part(offset, length)).equals(whole.subarray(offset, offset + length))).toBe(true);
    }
    expect(body.opened()).toBe(2);
    reader.close();
  });

  it.each([99_999, 100_001])(
    "a body that declares %i bytes is BODY_MISMATCH before its end is given",
    async (declared) => {
      const reader = new BodyReader(lying(declared), signal);
      await expect(reader.part(0, declared)).rejects.toMatchObject({ code: "BODY_MISMATCH" });
      reader.close();
    },
  );
});

// 98,304: all that was declared is there, and another piece behind it.
it.each([98_304, 99_999, 100_001])(
  "a stream of a body that declares %i bytes fails with a piece still held back",
  async (declared) => {
    // Slowly, so that the reader has taken each piece before the next one comes.
    const slow = {
      size: declared,
      async *open() {
        for await (const piece of streamed(whole).open()) {
          for (let turn = 0; turn < 3; turn++) await nextTurn();
          yield piece;
        }
      },
    };
    const opened = openBody(slow, signal);
    let came = 0;
    const read = async (): Promise<void> => {
      for await (const piece of opened.stream as AsyncIterable<Buffer>) came += piece.byteLength;
    };
    await expect(read()).rejects.toMatchObject({ code: "BODY_MISMATCH" });
    expect(came).toBeLessThan(Math.min(declared, whole.length));
    expect(opened.failed()).toMatchObject({ code: "BODY_MISMATCH" });
    opened.close();
  },
);

it("a source that never answers ends with its attempt, and its closing is not waited for", async () => {
  const stuck = {
    size: 1,
    open: () => ({ [Symbol.asyncIterator]: () => ({ next: () => new Promise<never>(() => undefined) }) }),
  };
  const opened = openBody(stuck, signal);
  opened.stream.resume();
  const closed = new Promise((resolve) => opened.stream.once("close", resolve));
  opened.close();
  await closed;
  expect(opened.failed()).toBeUndefined();
});

it("the checksum is of all bytes, in memory or not", async () => {
  expect(await checksumOf(whole, signal)).toBe(await checksumOf(streamed(whole), signal));
  await expect(checksumOf(lying(5), signal)).rejects.toMatchObject({ code: "BODY_MISMATCH" });
});
