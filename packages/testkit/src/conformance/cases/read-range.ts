import assert from "node:assert/strict";
import { ObjectStoreError, type ByteRange } from "@holdfast/object-store";
import { askingGet, onGet } from "../lies.js";
import { ok, assertRejects, headOf, open, patterned, rangeText, seed, textOf } from "../support.js";
import type { Case, CasePlace } from "../types.js";

type Offset = { readonly offset: number; readonly length: number };
const isOffset = (range: ByteRange | undefined): range is Offset => range !== undefined && "offset" in range;
const invalidRange = new ObjectStoreError("INVALID_RANGE", "not this range");

/** A store that asks for another range when this one fits. */
const taking = (fits: (range: Offset) => boolean, instead: (range: Offset) => ByteRange | undefined) =>
  askingGet((o) => {
    if (!isOffset(o.range) || !fits(o.range)) return o;
    const range = instead(o.range);
    const { ifMatch, signal } = o;
    return { signal, ...(ifMatch === undefined ? {} : { ifMatch }), ...(range === undefined ? {} : { range }) };
  });

/** A store that answers some failed reads with these bytes. */
const answering = (
  fits: (range: ByteRange | undefined, size: number) => boolean,
  bytes: (all: Uint8Array) => Uint8Array,
) =>
  onGet(async ({ key, o, real }) => {
    try {
      return await real.get(key, o);
    } catch (error) {
      const all = await real.get(key, { signal: o.signal }).catch(() => null);
      if (all === null || !fits(o.range, all.info.size)) throw error;
      return { bytes: bytes(all.bytes), info: all.info };
    }
  });

const none = (): Uint8Array => new Uint8Array(0);

const gives =
  (content: string, range: ByteRange, text: string) =>
  async ({ store }: CasePlace) => {
    await seed(store, "k", content);
    assert.equal(textOf((await store.get("k", { range, signal: open })).bytes), text);
  };

const refuses =
  (content: string, ...ranges: ByteRange[]) =>
  async ({ store }: CasePlace) => {
    await seed(store, "k", content);
    for (const range of ranges) await assertRejects(store.get("k", { range, signal: open }), "INVALID_RANGE");
  };

/** Reading ranges of objects. */
export const readRangeCases: readonly Case[] = [
  {
    id: "OS-123",
    clause: "a range from the middle gives exactly its bytes",
    lie: {
      says: "the end of a range counts too",
      tell: taking(
        ({ offset, length }) => offset > 0 && offset < 100 && length > 1,
        ({ offset, length }) => ({ offset, length: length + 1 }),
      ),
    },
    run: gives("0123456789", { offset: 3, length: 4 }, "3456"),
  },
  {
    id: "OS-124",
    clause: "a range of the first byte gives the first byte",
    lie: {
      says: "offset 0 means all",
      tell: taking(
        ({ offset }) => offset === 0,
        () => undefined,
      ),
    },
    run: gives("0123456789", { offset: 0, length: 1 }, "0"),
  },
  {
    id: "OS-125",
    clause: "a range of the last byte gives the last byte",
    lie: {
      says: "a range of one byte is the byte before",
      tell: taking(
        ({ offset, length }) => length === 1 && offset === 9,
        ({ offset }) => ({ offset: offset - 1, length: 1 }),
      ),
    },
    run: gives("0123456789", { offset: 9, length: 1 }, "9"),
  },
  {
    id: "OS-126",
    clause: "a range of all bytes gives all bytes",
    lie: {
      says: "a range of all bytes lacks the last",
      tell: onGet(async ({ key, o, real }) => {
        const { bytes, info } = await real.get(key, o);
        const whole = isOffset(o.range) && o.range.offset === 0 && o.range.length === info.size;
        return { bytes: whole ? bytes.subarray(0, -1) : bytes, info };
      }),
    },
    run: gives("0123456789", { offset: 0, length: 10 }, "0123456789"),
  },
  {
    id: "OS-127",
    clause: "a range that goes past the end is cut at the end",
    lie: {
      says: "a range that goes past the end is refused",
      tell: onGet(async ({ key, o, real }) => {
        const answer = await real.get(key, o);
        if (isOffset(o.range) && answer.bytes.length < o.range.length) throw invalidRange;
        return answer;
      }),
    },
    run: gives("0123456789", { offset: 8, length: 100 }, "89"),
  },
  {
    id: "OS-128",
    clause: "a suffix gives the last bytes",
    lie: {
      says: "a suffix is an offset",
      tell: askingGet((o) =>
        o.range !== undefined && "suffix" in o.range && o.range.suffix < 5
          ? { ...o, range: { offset: o.range.suffix, length: 1e6 } }
          : o,
      ),
    },
    run: gives("0123456789", { suffix: 3 }, "789"),
  },
  {
    id: "OS-129",
    clause: "a suffix of the object's own size is the object",
    lie: {
      says: "a suffix of all lacks the first byte",
      tell: onGet(async ({ key, o, real }) => {
        const { bytes, info } = await real.get(key, o);
        const whole = o.range !== undefined && "suffix" in o.range && o.range.suffix === info.size;
        return { bytes: whole ? bytes.subarray(1) : bytes, info };
      }),
    },
    run: gives("0123456789", { suffix: 10 }, "0123456789"),
  },
  {
    id: "OS-130",
    clause: "a suffix above the object's size is the object",
    lie: {
      says: "a suffix that is too long is refused",
      tell: onGet(async ({ key, o, real }) => {
        const answer = await real.get(key, o);
        if (o.range !== undefined && "suffix" in o.range && o.range.suffix > answer.info.size) throw invalidRange;
        return answer;
      }),
    },
    run: gives("0123456789", { suffix: 11 }, "0123456789"),
  },
  {
    id: "OS-131",
    clause: "the info of a range tells the size of the whole object",
    lie: {
      says: "the info of a range tells the size of the range",
      tell: onGet(async ({ key, o, real }) => {
        const { bytes, info } = await real.get(key, o);
        return { bytes, info: { ...info, size: bytes.length } };
      }),
    },
    async run({ store }) {
      await seed(store, "k", "0123456789");
      assert.equal((await store.get("k", { range: { offset: 2, length: 3 }, signal: open })).info.size, 10);
    },
  },
  {
    id: "OS-132",
    clause: "the info of a range tells etag and metadata",
    lie: {
      says: "the info of a range has no metadata",
      tell: onGet(async ({ key, o, real }) => {
        const { bytes, info } = await real.get(key, o);
        return { bytes, info: o.range === undefined ? info : { ...info, metadata: {} } };
      }),
    },
    async run({ store }) {
      const etag = await seed(store, "k", "0123456789", { metadata: { a: "1" } });
      const { info } = await store.get("k", { range: { offset: 2, length: 3 }, signal: open });
      assert.deepEqual([info.etag, info.metadata], [etag, (await headOf(store, "k"))?.metadata]);
    },
  },
  {
    id: "OS-133",
    clause: "a range that begins at the end is INVALID_RANGE",
    lie: {
      says: "a range that begins at the end is empty",
      tell: answering((range, size) => size > 0 && isOffset(range) && range.offset === size && range.length > 0, none),
    },
    run: refuses("0123456789", { offset: 10, length: 1 }),
  },
  {
    id: "OS-134",
    clause: "a range far behind the end is INVALID_RANGE",
    lie: {
      says: "a range behind the end is the whole object",
      tell: answering(
        (range, size) => size > 0 && isOffset(range) && range.offset > size,
        (all) => all,
      ),
    },
    run: refuses("0123456789", { offset: 1_000_000, length: 1 }),
  },
  {
    id: "OS-135",
    clause: "a negative offset is INVALID_RANGE",
    lie: {
      says: "a negative offset counts from the end",
      tell: answering(
        (range) => isOffset(range) && range.offset < 0,
        (all) => all.slice(-1),
      ),
    },
    run: refuses("0123456789", { offset: -1, length: 1 }),
  },
  {
    id: "OS-136",
    clause: "a range of no bytes is INVALID_RANGE",
    lie: {
      says: "a range of no bytes is empty",
      tell: answering((range) => isOffset(range) && range.length === 0, none),
    },
    run: refuses("0123456789", { offset: 0, length: 0 }, { offset: 5, length: 0 }),
  },
  {
    id: "OS-137",
    clause: "a range of less than no bytes is INVALID_RANGE",
    lie: {
      says: "a negative length goes backwards",
      tell: answering(
        (range) => isOffset(range) && range.length < 0,
        (all) => all.slice(0, 1),
      ),
    },
    run: refuses("0123456789", { offset: 5, length: -1 }),
  },
  {
    id: "OS-138",
    clause: "a range in fractions of bytes is INVALID_RANGE",
    lie: {
      says: "fractions are cut off",
      tell: taking(
        ({ offset, length }) => !Number.isInteger(offset) || (!Number.isInteger(length) && !Number.isNaN(length)),
        ({ offset, length }) => ({ offset: Math.floor(offset), length: Math.ceil(length) }),
      ),
    },
    run: refuses("0123456789", { offset: 0.5, length: 1 }, { offset: 0, length: 1.5 }),
  },
  {
    id: "OS-139",
    clause: "a range that is not a number is INVALID_RANGE",
    lie: {
      says: "what is not a number means to the end",
      tell: taking(
        ({ length }) => Number.isNaN(length),
        ({ offset }) => ({ offset, length: 1e6 }),
      ),
    },
    run: refuses("0123456789", { offset: 0, length: NaN }),
  },
  {
    id: "OS-140",
    clause: "a suffix of no bytes is INVALID_RANGE",
    lie: {
      says: "a suffix of no bytes is the whole object",
      tell: answering(
        (range) => range !== undefined && "suffix" in range && range.suffix === 0,
        (all) => all,
      ),
    },
    run: refuses("0123456789", { suffix: 0 }),
  },
  {
    id: "OS-141",
    clause: "a suffix that is negative or infinite is INVALID_RANGE",
    lie: {
      says: "an odd suffix is the whole object",
      tell: answering(
        (range) => range !== undefined && "suffix" in range && !(range.suffix >= 0 && range.suffix < Infinity),
        (all) => all,
      ),
    },
    run: refuses("0123456789", { suffix: -1 }, { suffix: Infinity }),
  },
  {
    id: "OS-142",
    clause: "a range of an object without bytes is INVALID_RANGE",
    lie: {
      says: "every range of nothing is nothing",
      tell: answering((range, size) => size === 0 && isOffset(range), none),
    },
    run: refuses("", { offset: 0, length: 1 }),
  },
  {
    id: "OS-143",
    clause: "a suffix of an object without bytes is INVALID_RANGE",
    lie: {
      says: "every suffix of nothing is nothing",
      tell: answering((range, size) => size === 0 && range !== undefined && "suffix" in range, none),
    },
    run: refuses("", { suffix: 1 }),
  },
  {
    id: "OS-144",
    clause: "a range of a key that holds nothing is NOT_FOUND",
    lie: {
      says: "a range of nothing is INVALID_RANGE",
      tell: onGet(({ key, o, real }) =>
        real.get(key, o).catch((error: unknown) => {
          const absent = error instanceof ObjectStoreError && error.code === "NOT_FOUND" && o.range !== undefined;
          throw absent ? invalidRange : error;
        }),
      ),
    },
    async run({ store }) {
      await assertRejects(store.get("nothing", { range: { offset: 0, length: 1 }, signal: open }), "NOT_FOUND");
    },
  },
  {
    id: "OS-145",
    clause: "ranges around 64 KiB are not shifted",
    lie: {
      says: "offsets above 64 KiB are rounded down to a page",
      tell: taking(
        ({ offset }) => offset > 65_536 && offset < 1_000_000,
        ({ offset, length }) => ({ offset: offset - (offset % 4096), length }),
      ),
    },
    async run({ store }) {
      await seed(store, "k", patterned(70_000));
      for (const [offset, length] of [
        [65_535, 2],
        [65_537, 100],
        [69_000, 1000],
      ] as const) {
        const { bytes } = await store.get("k", { range: { offset, length }, signal: open });
        ok(Buffer.from(patterned(70_000).subarray(offset, offset + length)).equals(bytes), `${offset} + ${length}`);
      }
    },
  },
  {
    id: "OS-146",
    clause: "a range of over a megabyte is whole",
    lie: {
      says: "an answer has a megabyte at most",
      tell: onGet(async ({ key, o, real }) => {
        const { bytes, info } = await real.get(key, o);
        return { bytes: o.range === undefined ? bytes : bytes.subarray(0, 1 << 20), info };
      }),
    },
    async run({ store }) {
      const content = patterned(1_200_000);
      await seed(store, "k", content);
      const { bytes } = await store.get("k", { range: { offset: 7, length: 1_100_000 }, signal: open });
      ok(Buffer.from(content.subarray(7, 1_100_007)).equals(bytes));
    },
  },
  {
    id: "OS-147",
    clause: "ranges beside each other join to the object",
    lie: {
      says: "every range behind another begins a byte too late",
      tell: (real) => {
        let end = -1;
        return {
          get(key, o) {
            if (!isOffset(o.range)) return real.get(key, o);
            const { offset, length } = o.range;
            const late = offset === end && offset % 3 === 0 && offset > 0;
            end = offset + length;
            return real.get(key, late ? { ...o, range: { offset: offset + 1, length } } : o);
          },
        };
      },
    },
    async run({ store }) {
      await seed(store, "k", "abcdefghijkl");
      let text = "";
      for (let offset = 0; offset < 12; offset += 3) text += await rangeText(store, "k", offset, 3);
      assert.equal(text, "abcdefghijkl");
    },
  },
];
