// Goal: a put that was answered with success, which proves nothing, is `created` only with the etag of our own object. Method: a server that
// answers 200 without a checksum, and a HEAD that shows each kind of object that can be there then.
import {
  errorCode,
  putVerified,
  resolveUnknownPut,
  writeIdKey,
  type PutOptions,
  type PutResult,
} from "@holdfast/object-store";
import { describe, expect, it } from "vitest";
import { etagOf, ops, refuse, scriptedS3, storeOn } from "../support/scripted-s3.js";

const never = new AbortController().signal;
const bytes = new TextEncoder().encode("the bytes of this test");
const size = bytes.length;
/** Not an array: its SHA-256 would be signed, and then the 200 does prove that the bytes have arrived. */
const body = {
  size,
  async *open() {
    yield await Promise.resolve(bytes);
  },
};

type There = { readonly etag?: string; readonly size?: number; readonly writeId?: string };

async function serverWith(o: { answered: string; there: There }) {
  return scriptedS3((seen, response) => {
    if (seen.op === "put") return void response.writeHead(200, o.answered === "" ? {} : { etag: o.answered }).end();
    const { there } = o;
    response.writeHead(200, {
      "content-length": there.size ?? size,
      ...(there.etag === undefined ? {} : { etag: there.etag }),
      ...(there.writeId === undefined ? {} : { [`x-amz-meta-${writeIdKey}`]: there.writeId }),
    });
    response.end();
  });
}

/** A put with the write id `mine` (or none), answered 200 with an etag (or none), and what a HEAD shows afterwards. */
async function put(o: { mode: PutOptions["mode"]; answered: string; there: There; writeId?: boolean }) {
  const server = await serverWith(o);
  const metadata = o.writeId === false ? {} : { metadata: { [writeIdKey]: "mine" } };
  const result = await storeOn(server).put("k", body, { mode: o.mode, signal: never, ...metadata });
  expect(ops(server)).toBe("put head");
  return said(result);
}

/** `created`, with its etag, or what else came, with its code. */
const said = (result: PutResult): string =>
  result.outcome === "created"
    ? `created ${result.etag}`
    : `${result.outcome} ${"error" in result ? errorCode(result.error) : result.info.etag}`;

const ours = { etag: '"e"', writeId: "mine" };
const another = { etag: '"other"', writeId: "theirs" };
const modes = ["create", "overwrite", { ifMatch: "before" }] as const;

describe("a 200 that proves nothing, and then a look that shows", () => {
  it.each(modes)("our own object: created with the etag that is there (%j)", async (mode) => {
    expect(await put({ mode, answered: '"e"', there: ours })).toBe("created e");
    expect(await put({ mode, answered: "", there: ours })).toBe("created e");
  });

  it.each(modes)("an object without a write id, with the etag of the answer: created (%j)", async (mode) => {
    expect(await put({ mode, answered: '"e"', there: { etag: '"e"' } })).toBe("created e");
    expect(await put({ mode, answered: '"e"', there: { etag: '"e"' }, writeId: false })).toBe("created e");
  });

  // Red with the rule before, "equal size, or another etag: created": it told the etag of the other object where the answer had none.
  it.each<[string, There]>([
    ["of the same size", another],
    ["of another size", { ...another, size: 5 }],
    ["of the same bytes, and so of the same etag", { etag: '"e"', writeId: "theirs" }],
    ["without a write id", { etag: '"other"' }],
  ])("another's object %s: a create is unknown, whatever the answer said", async (_what, there) => {
    expect(await put({ mode: "create", answered: '"e"', there })).toBe("unknown UNAVAILABLE");
    expect(await put({ mode: "create", answered: "", there })).toBe("unknown UNAVAILABLE");
  });

  it.each<[string, There]>([
    ["of the same size", another],
    ["of another size", { ...another, size: 5 }],
    ["without a write id", { etag: '"other"' }],
  ])("another's object %s: ours was overwritten, and is told with its own etag or not at all", async (_what, there) => {
    for (const mode of ["overwrite", { ifMatch: "before" }] as const) {
      expect(await put({ mode, answered: '"e"', there })).toBe("created e");
      expect(await put({ mode, answered: "", there })).toBe("unknown UNAVAILABLE");
    }
  });

  // Red without `before` in `verified`: it was created, though nobody can see that anything was replaced.
  it("the object that was to be replaced: unknown", async () => {
    const there = { etag: '"before"', writeId: "theirs" };
    expect(await put({ mode: { ifMatch: "before" }, answered: '"e"', there })).toBe("unknown UNAVAILABLE");
  });

  // Red with `given !== undefined` alone in `putWhole`: it was created without a look.
  it.each(["none", "md5"] as const)("a CRC-32 that was never compared proves nothing (%s)", async (checksum) => {
    const server = await scriptedS3((seen, response) => {
      if (seen.op === "put") response.writeHead(200, { etag: '"e"', "x-amz-checksum-crc32": "AAAAAA==" }).end();
      else response.writeHead(200, { etag: '"e"', "content-length": size + 3 }).end();
    });
    const result = await storeOn(server, { checksum }).put("k", body, { mode: "create", signal: never });
    expect([said(result), ops(server)]).toEqual(["unknown CORRUPT", "put head"]);
  });

  // Red when an object that has a write id is taken for ours by its size, because the put had none.
  it("an object with a write id, to a put without one: another's", async () => {
    expect(await put({ mode: "create", answered: '"e"', there: another, writeId: false })).toBe("unknown UNAVAILABLE");
    expect(await put({ mode: "create", answered: "", there: another, writeId: false })).toBe("unknown UNAVAILABLE");
  });

  it("nothing that tells whose it is, neither etag nor write id: unknown", async () => {
    const there = { etag: '"e"' };
    expect(await put({ mode: "create", answered: "", there, writeId: false })).toBe("unknown UNAVAILABLE");
    expect(await put({ mode: "overwrite", answered: "", there })).toBe("unknown UNAVAILABLE");
  });

  // Red without `usualEtag` in `putWhole`.
  it("an answer without an etag to a put with an MD5: the etag that is there is the bytes'", async () => {
    const there = { etag: etagOf(Buffer.from(bytes)) };
    const server = await serverWith({ answered: "", there });
    const result = await storeOn(server, { checksum: "md5" }).put("k", body, { mode: "create", signal: never });
    expect(said(result)).toBe(`created ${there.etag.slice(1, -1)}`);
  });

  it.each(modes)("our object in another size, by its write id or by its etag: CORRUPT (%j)", async (mode) => {
    expect(await put({ mode, answered: "", there: { ...ours, size: size + 3 } })).toBe("unknown CORRUPT");
    expect(await put({ mode, answered: '"e"', there: { etag: '"e"', size: size + 3 } })).toBe("unknown CORRUPT");
    expect(await put({ mode, answered: '"e"', there: { etag: '"f"', writeId: "mine", size: 5 } })).toBe(
      "unknown CORRUPT",
    );
  });

  it("our object and no etag: not created with none", async () => {
    expect(await put({ mode: "create", answered: "", there: { writeId: "mine" } })).toBe("unknown CORRUPT");
  });

  it("the open outcome of a create is a conflict to who looks again, with what is there", async () => {
    const server = await serverWith({ answered: '"e"', there: another });
    const result = await putVerified(storeOn(server), "k", body, { writeId: "mine", signal: never });
    expect(result).toMatchObject({ outcome: "conflict", info: { etag: "other" } });
    expect(await resolveUnknownPut(storeOn(server), "k", body, { writeId: "theirs", signal: never })).toMatchObject({
      outcome: "created",
      etag: "other",
    });
  });
});

describe("a refused condition, after an attempt that may have stored something", () => {
  /** Put with the write id `mine`: the first attempt is in doubt (a 409), the second refused. */
  async function refusedAfterDoubt(mode: PutOptions["mode"], there: There, writeId = true) {
    const server = await scriptedS3((seen, response) => {
      if (seen.op === "put" && seen.nth === 1) refuse(response, 409, "ConditionalRequestConflict");
      else if (seen.op === "put") refuse(response, 412, "PreconditionFailed");
      else {
        const id = there.writeId === undefined ? {} : { [`x-amz-meta-${writeIdKey}`]: there.writeId };
        response.writeHead(200, { "content-length": there.size ?? size, etag: there.etag ?? "", ...id }).end();
      }
    });
    const metadata = writeId ? { metadata: { [writeIdKey]: "mine" } } : {};
    const result = await storeOn(server).put("k", bytes, { mode, signal: never, ...metadata });
    expect(ops(server)).toBe("put put head");
    return said(result);
  }

  // Red without `replacedSince`: `exists` says that nothing was written, and who then writes his change again has it twice. The other may have
  // replaced what the first attempt had stored, under its etag.
  it("another's object after a replacement: unknown, whoever has write ids and whatever its size", async () => {
    for (const there of [another, { ...another, size: 5 }, { etag: '"other"', size: 5 }])
      for (const writeId of [true, false])
        expect(await refusedAfterDoubt({ ifMatch: "before" }, there, writeId)).toBe("unknown UNAVAILABLE");
  });

  it("another's object after a create: exists; nobody replaces what is created once", async () => {
    expect(await refusedAfterDoubt("create", another)).toBe("exists other");
  });

  it("our own object: created; in another size CORRUPT", async () => {
    for (const mode of ["create", { ifMatch: "before" }] as const) {
      expect(await refusedAfterDoubt(mode, ours)).toBe("created e");
      // Red without `keepsElse` in `look`: it was `exists`.
      expect(await refusedAfterDoubt(mode, { ...ours, size: size + 3 })).toBe("unknown CORRUPT");
    }
  });

  it("what was to be replaced, under the etag that was asked for: unknown", async () => {
    expect(await refusedAfterDoubt({ ifMatch: "other" }, another)).toBe("unknown UNAVAILABLE");
  });
});

describe("a refused condition, to a put that had none", () => {
  // Red when `meaningOf` does not look at `conditional`: the put was then told `exists`, or that nothing was there to replace.
  it.each([412, 304])("%i to an overwrite: failed, by what was answered, without a look", async (status) => {
    const server = await scriptedS3((seen, response, honest) =>
      seen.op === "put" ? refuse(response, status, status === 412 ? "PreconditionFailed" : undefined) : honest(),
    );
    server.objects.set("k", { bytes: Buffer.from("before"), metadata: {} });
    const result = await storeOn(server).put("k", body, { mode: "overwrite", signal: never });
    expect(said(result)).toBe("failed UNAVAILABLE");
    expect("error" in result && result.error.message).toMatch(new RegExp(`answered ${status} .*no condition was sent`));
    expect(ops(server)).toBe("put");
  });
});
