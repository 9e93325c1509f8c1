import assert from "node:assert/strict";
import type { PutOptions } from "@holdfast/object-store";
import { failed, givingPut, onHead, onPut } from "../lies.js";
import { assertAbsent, assertFailed, bytesOf, headOf, infosOf, open, put, seed, streamed } from "../support.js";
import type { Case, CasePlace } from "../types.js";

type Metadata = Readonly<Record<string, string>>;

/** A put whose metadata is changed on the way. */
const changing = (change: (metadata: Metadata) => Metadata) =>
  givingPut((o) => (o.metadata === undefined ? o : { ...o, metadata: change(o.metadata) }));

const eachValue = (change: (value: string) => string) =>
  changing((metadata) => Object.fromEntries(Object.entries(metadata).map(([name, value]) => [name, change(value)])));

const eachName = (change: (name: string) => string) =>
  changing((metadata) => Object.fromEntries(Object.entries(metadata).map(([name, value]) => [change(name), value])));

const keeps = (metadata: Metadata) => async (place: CasePlace) => {
  if (!place.store.capabilities.metadata) return;
  await seed(place.store, "k", "v", { metadata });
  assert.deepEqual((await headOf(place.store, "k"))?.metadata, metadata);
};

const refuses = (metadata: Metadata) => async (place: CasePlace) => {
  if (!place.store.capabilities.metadata) return;
  assertFailed(await put(place.store, "k", "v", "overwrite", { metadata }), "INVALID_METADATA");
  await assertAbsent(place.store, "k");
};

const pairs = (count: number): Metadata =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`n${i + 10}`, "x".repeat(61)]));

/** The metadata of a put. */
export const putMetadataCases: readonly Case[] = [
  {
    id: "OS-040",
    clause: "metadata comes back as it was put",
    lie: { says: "values lose their capitals", tell: eachValue((value) => value.toLowerCase()) },
    run: keeps({ format: "Pack-0" }),
  },
  {
    id: "OS-041",
    clause: "an empty value is a value",
    lie: {
      says: "empty values are dropped",
      tell: changing((metadata) => Object.fromEntries(Object.entries(metadata).filter(([, value]) => value !== ""))),
    },
    run: keeps({ empty: "", other: "x" }),
  },
  {
    id: "OS-042",
    clause: "spaces inside a value stay as they are",
    lie: { says: "spaces in values become one", tell: eachValue((value) => value.replace(/ +/g, " ")) },
    run: keeps({ a: "two  spaces   three" }),
  },
  {
    id: "OS-043",
    clause: "quotes, backslashes and <&> in a value stay as they are",
    lie: {
      says: "values are escaped as XML",
      tell: eachValue((value) => value.replace(/[<&>"]/g, (c) => `&#${c.charCodeAt(0)};`)),
    },
    run: keeps({ a: `a "b" \\ <&>'` }),
  },
  {
    id: "OS-044",
    clause: "percent signs, plus signs, commas and equals signs in a value stay as they are",
    lie: {
      says: "values are decoded as a URL",
      tell: eachValue((value) => value.replaceAll("%2C", ",").replaceAll("+", " ")),
    },
    run: keeps({ a: "100%2C+a=b,c;d" }),
  },
  {
    id: "OS-045",
    clause: "names may have digits and dashes, and 64 letters",
    lie: {
      says: "dashes in names become underscores and back, save the last",
      tell: eachName((name) => name.replace(/-(?=9)/g, "")),
    },
    run: keeps({ "a-9-b": "1", ["n".repeat(64)]: "2" }),
  },
  {
    id: "OS-046",
    clause: "2,048 bytes of metadata come back",
    lie: {
      says: "values end after 1,000 bytes",
      tell: eachValue((value) => value.slice(0, 1000)),
    },
    run: keeps({ a: '"'.repeat(1023), b: "\\".repeat(1023) }),
  },
  {
    id: "OS-047",
    clause: "many names come back",
    lie: {
      says: "an object has ten names at most",
      tell: changing((metadata) => Object.fromEntries(Object.entries(metadata).slice(0, 10))),
    },
    run: keeps(pairs(30)),
  },
  {
    id: "OS-048",
    clause: "without metadata there is none",
    lie: {
      says: "a store adds metadata of its own",
      tell: onHead(async ({ key, o, real }) => {
        const info = await real.head(key, o);
        return info && Object.keys(info.metadata).length === 0 ? { ...info, metadata: { "stored-by": "us" } } : info;
      }),
    },
    async run({ store }) {
      await seed(store, "k", "v");
      assert.deepEqual((await headOf(store, "k"))?.metadata, {});
    },
  },
  {
    id: "OS-049",
    clause: "a content type is taken and is no metadata",
    lie: {
      says: "a content type becomes metadata",
      tell: givingPut((o) =>
        o.contentType === undefined ? o : { ...o, metadata: { ...o.metadata, "content-type": o.contentType } },
      ),
    },
    async run({ store }) {
      if (!store.capabilities.metadata) return;
      const o: PutOptions = { mode: "overwrite", metadata: { a: "1" }, contentType: "text/plain" };
      assert.equal((await store.put("k", bytesOf("v"), { ...o, signal: open })).outcome, "created");
      assert.deepEqual((await headOf(store, "k"))?.metadata, { a: "1" });
    },
  },
  {
    id: "OS-050",
    clause: "overwrite replaces the metadata as a whole",
    lie: {
      says: "an overwrite adds to the metadata",
      tell: onPut(async ({ key, body, o, real }) => {
        const there = o.mode === "overwrite" ? await real.head(key, o).catch(() => null) : null;
        const metadata = { ...there?.metadata, ...o.metadata };
        return real.put(key, body, Object.keys(metadata).length === 0 ? o : { ...o, metadata });
      }),
    },
    async run({ store }) {
      if (!store.capabilities.metadata) return;
      await seed(store, "k", "one", { metadata: { a: "1" } });
      await seed(store, "k", "two", { mode: "overwrite", metadata: { b: "2" } });
      assert.deepEqual((await headOf(store, "k"))?.metadata, { b: "2" });
    },
  },
  {
    id: "OS-051",
    clause: "overwrite without metadata leaves none",
    lie: {
      says: "an overwrite without metadata keeps the old one",
      tell: onPut(async ({ key, body, o, real }) => {
        const there =
          o.mode === "overwrite" && o.metadata === undefined ? await real.head(key, o).catch(() => null) : null;
        return real.put(key, body, there === null ? o : { ...o, metadata: there.metadata });
      }),
    },
    async run({ store }) {
      await seed(store, "k", "one", { metadata: { a: "1" } });
      await seed(store, "k", "two", { mode: "overwrite" });
      assert.deepEqual((await headOf(store, "k"))?.metadata, {});
    },
  },
  {
    id: "OS-052",
    clause: "the metadata of an object without bytes is kept",
    lie: {
      says: "an object without bytes has no metadata",
      tell: onHead(async ({ key, o, real }) => {
        const info = await real.head(key, o);
        return info?.size === 0 ? { ...info, metadata: {} } : info;
      }),
    },
    async run({ store }) {
      if (!store.capabilities.metadata) return;
      await seed(store, "k", "", { metadata: { a: "1" } });
      assert.deepEqual((await headOf(store, "k"))?.metadata, { a: "1" });
    },
  },
  {
    id: "OS-053",
    clause: "listed infos have no metadata",
    lie: {
      says: "a listing has metadata",
      tell: (real) => ({
        async *list(o) {
          for await (const info of real.list(o)) yield (await real.head(info.key, o)) ?? info;
        },
      }),
    },
    async run({ store }) {
      await seed(store, "k", "v", { metadata: { a: "1" } });
      assert.deepEqual(
        (await infosOf(store)).map(({ metadata }) => metadata),
        [{}],
      );
    },
  },
  {
    id: "OS-054",
    clause: "a name with capitals is INVALID_METADATA",
    lie: { says: "capitals in names become small", tell: eachName((name) => name.toLowerCase()) },
    run: refuses({ Upper: "x" }),
  },
  {
    id: "OS-055",
    clause: "a name with an underscore or a space is INVALID_METADATA",
    lie: {
      says: "underscores and spaces in names become dashes",
      tell: eachName((name) => name.replace(/[_ ]/g, "-")),
    },
    async run(place) {
      await refuses({ a_b: "x" })(place);
      await refuses({ "a b": "x" })(place);
    },
  },
  {
    id: "OS-056",
    clause: "an empty name, and one that ends in a dash, is INVALID_METADATA",
    lie: {
      says: "dashes at the end of a name, and empty names, are mended",
      tell: eachName((name) => name.replace(/-$/, "") || "x"),
    },
    async run(place) {
      await refuses({ "": "x" })(place);
      await refuses({ "a-": "x" })(place);
    },
  },
  {
    id: "OS-057",
    clause: "a name of 65 letters is INVALID_METADATA",
    lie: { says: "names are cut after 64 letters", tell: eachName((name) => name.slice(0, 64)) },
    run: refuses({ ["n".repeat(65)]: "x" }),
  },
  {
    id: "OS-058",
    clause: "a value outside ASCII is INVALID_METADATA",
    lie: {
      says: "letters outside ASCII become question marks",
      tell: eachValue((value) => value.replace(/[^\x00-\x7f]/g, "?")),
    },
    run: refuses({ a: "é" }),
  },
  {
    id: "OS-059",
    clause: "a value with a line break is INVALID_METADATA",
    lie: { says: "line breaks in values become spaces", tell: eachValue((value) => value.replace(/[\r\n]+/g, "_")) },
    async run(place) {
      await refuses({ a: "x\r\ny: z" })(place);
    },
  },
  {
    id: "OS-060",
    clause: "a value with a space at either end is INVALID_METADATA",
    lie: { says: "values are trimmed", tell: eachValue((value) => value.replace(/^ +| +$/g, "")) },
    async run(place) {
      await refuses({ a: " x" })(place);
      await refuses({ a: "x " })(place);
    },
  },
  {
    id: "OS-061",
    clause: "more than 2,048 bytes of metadata are INVALID_METADATA",
    lie: {
      says: "metadata that is too much is left out",
      tell: changing((metadata) => (Object.entries(metadata).flat().join("").length > 2048 ? {} : metadata)),
    },
    run: refuses({ a: "x".repeat(2048) }),
  },
  {
    id: "OS-062",
    clause: "a content type with a line break is INVALID_METADATA",
    lie: {
      says: "a content type is cut at a line break",
      tell: givingPut((o) =>
        o.contentType === undefined ? o : { ...o, contentType: o.contentType.split("\r")[0] ?? "" },
      ),
    },
    async run({ store }) {
      const code = store.capabilities.metadata ? "INVALID_METADATA" : "UNSUPPORTED";
      const o = { mode: "overwrite", contentType: "text/plain\r\nx: y", signal: open } as const;
      assertFailed(await store.put("k", bytesOf("v"), o), code);
      await assertAbsent(store, "k");
    },
  },
  {
    id: "OS-063",
    clause: "what is refused for its metadata is refused before its body is opened",
    lie: {
      says: "the body is opened before anything is looked at",
      tell: onPut(async ({ key, body, o, real }) => {
        if (!(body instanceof Uint8Array) && o.metadata !== undefined) {
          try {
            for await (const piece of body.open()) if (piece.length > 1e9) break;
          } catch (error) {
            return failed(error);
          }
        }
        return real.put(key, body, o);
      }),
    },
    async run({ store }) {
      const body = streamed(1, [bytesOf("v")]);
      const result = await store.put("k", body, { mode: "overwrite", metadata: { "A B": "x" }, signal: open });
      assertFailed(result, store.capabilities.metadata ? "INVALID_METADATA" : "UNSUPPORTED");
      assert.equal(body.opened(), 0);
    },
  },
];
