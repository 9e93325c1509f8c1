// Goal: a listing has every key, byte for byte, once, or fails. Method: a server that spells keys in each way that is out there, and one
// that loses its place.
import { errorCode, type ObjectStore } from "@holdfast/object-store";
import { describe, expect, it } from "vitest";
import { listPage, ops, refuse, scriptedS3, storeOn } from "../support/scripted-s3.js";

const never = new AbortController().signal;

async function keysOf(
  store: ObjectStore,
  o: { prefix?: string; startAfter?: string; limit?: number } = {},
): Promise<string[]> {
  const keys: string[] = [];
  for await (const { key } of store.list({ prefix: "", ...o, signal: never })) keys.push(key);
  return keys;
}

const failing = (store: ObjectStore): Promise<unknown> => keysOf(store).catch((error: unknown) => errorCode(error));

const odd = [
  " lead",
  "%41",
  "&amp;",
  "//a//b",
  "./a",
  "<&>\"'",
  "100%",
  "100%25",
  "a b",
  "a+b",
  "a/../b",
  "dir/",
  "e\u0301",
  "trail ",
  "x#y?z=1",
  "é",
  "한국어",
  "😀",
].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));

describe("B25 keys survive the listing", () => {
  const inForm = (key: string) => encodeURIComponent(key).replaceAll("%20", "+").replaceAll("%2F", "/");
  it.each<[string, { encode?: (key: string) => string; silent?: boolean }]>([
    ["a space as %20", {}],
    ["a space as +, slashes as they are", { encode: inForm }],
    ["not encoded though asked for", { encode: (key) => key, silent: true }],
  ])("%s", async (_what, spelling) => {
    const server = await scriptedS3((_seen, response) => void response.end(listPage(odd, spelling)));
    expect(await keysOf(storeOn(server))).toEqual(odd);
    expect(server.seen[0]?.query.get("encoding-type")).toBe("url");
  });

  it("a foreign name that is no UTF-8 is left out and stops nobody; a control character is a name", async () => {
    const page = listPage(["a", "b", "c\u0003", "d"], {
      encode: (key) => (key === "b" ? "b%ff" : encodeURIComponent(key)),
    });
    const server = await scriptedS3((_seen, response) => void response.end(page));
    expect(await keysOf(storeOn(server))).toEqual(["a", "c\u0003", "d"]);
  });
});

it.each([
  ["another answer's XML", "<ListAllMyBucketsResult><Buckets/></ListAllMyBucketsResult>"],
  ["a page of somebody else's", "<html><body>sign in</body></html>"],
  ["nothing", ""],
])("a 200 with %s is no empty listing", async (_, body) => {
  const server = await scriptedS3((_seen, response) => void response.writeHead(200).end(body));
  expect(await failing(storeOn(server))).toMatch(/^(?:CORRUPT|UNAVAILABLE)$/);
});

// Red with `Size ?? 0` and `Key ?? ""`: an object was listed as empty, and another under no key.
it.each(["<Key>a</Key>", "<Size>1</Size>", "<Key></Key><Size>1</Size>"])(
  "an entry that is only %s is CORRUPT",
  async (entry) => {
    const page = `<R><IsTruncated>false</IsTruncated><Contents>${entry}<ETag>"e"</ETag></Contents></R>`;
    const server = await scriptedS3((_seen, response) => void response.end(page));
    expect(await failing(storeOn(server))).toBe("CORRUPT");
  },
);

describe("pages", () => {
  const pages = async (answers: readonly string[]) => {
    const server = await scriptedS3(
      (seen, response) => void response.end(answers[Math.min(seen.nth, answers.length) - 1]),
    );
    return { server, store: storeOn(server) };
  };

  it("go on by token, and by the last key where a token is missing", async () => {
    const { server, store } = await pages([
      listPage(["a", "b"], { more: true, token: "t1" }),
      listPage(["c"], { more: true, token: null }),
      listPage(["d"]),
    ]);
    expect(await keysOf(store)).toEqual(["a", "b", "c", "d"]);
    expect(server.seen.map(({ query }) => [query.get("continuation-token"), query.get("start-after")])).toEqual([
      [null, null],
      ["t1", null],
      [null, "c"],
    ]);
  });

  it.each([
    [
      "repeats a page",
      [listPage(["a", "b"], { more: true, token: "t1" }), listPage(["a", "b"], { more: true, token: "t2" })],
    ],
    ["goes back", [listPage(["b", "a"])]],
    ["leaves the prefix", [listPage(["zz/other"])]],
    [
      "hands out one token for ever",
      [listPage(["a"], { more: true, token: "t1" }), listPage([], { more: true, token: "t1" })],
    ],
    // FA-21: A, B, A, B without a key. Red (101 requests instead of 3) with `this.#tokens.clear()` on every page: a look at the last token alone.
    [
      "leads around two empty pages",
      [
        listPage(["a"], { more: true, token: "A" }),
        listPage([], { more: true, token: "B" }),
        listPage([], { more: true, token: "A" }),
        listPage([], { more: true, token: "B" }),
      ],
    ],
    ["says there is more, and where not", [listPage([], { more: true, token: null })]],
    // Red without the look at KeyCount: "b" was listed as if there were nothing before it.
    ["counts an entry that it does not have", [listPage(["b"], { count: 2 })]],
    // Red, and never ending, when names that are no keys count as a page that went forward.
    [
      "says there is more behind names that are no keys, and where not",
      [listPage(["b", "c"], { more: true, token: null, encode: (key) => `${key}%ff` })],
    ],
    [
      "says so behind a page that was good",
      [
        listPage(["a"], { more: true, token: "t1" }),
        listPage(["b", "c"], { more: true, token: null, encode: (key) => `${key}%ff` }),
      ],
    ],
  ])("a server that %s is CORRUPT, not a short listing", async (what, answers) => {
    const { server, store } = await pages(answers);
    const listed =
      what === "leaves the prefix"
        ? keysOf(store, { prefix: "a/" }).catch((error: unknown) => errorCode(error))
        : failing(store);
    expect(await listed).toBe("CORRUPT");
    expect(server.seen.length).toBeLessThanOrEqual(answers.length);
  });

  // FA-21. Red, and never ending, without `place.emptyPages > emptyPagesMax`.
  it.each([
    ["no name at all", []],
    ["names that are no keys", ["b", "c"]],
  ])("a server with a new token for ever, and pages of %s, is CORRUPT after 100 of them", async (_what, names) => {
    const server = await scriptedS3((seen, response) => {
      const more = { more: true, token: `t${seen.nth}` };
      const foreign = { ...more, encode: (key: string) => `${key}%ff` };
      response.end(seen.nth === 1 ? listPage(["a"], more) : listPage(names, foreign));
    });
    expect(await failing(storeOn(server))).toBe("CORRUPT");
    expect(server.seen).toHaveLength(1 + 101);
  });

  // Red without `this.emptyPages = 0`, and without `this.#tokens.clear()`: a server may have the same token again after a key.
  it("empty pages between keys are none, however many there are in all", async () => {
    const rounds = 4;
    const server = await scriptedS3((seen, response) => {
      const [round, nth] = [Math.floor((seen.nth - 1) / 40), (seen.nth - 1) % 40];
      const keys = nth === 39 ? [`key ${round}`] : [];
      // The token that led to a key is never there again: with it the key would come again.
      const token = nth === 38 ? `before key ${round}` : `t${nth}`;
      response.end(listPage(keys, { more: round < rounds - 1 || nth < 39, token }));
    });
    expect(await keysOf(storeOn(server))).toEqual(["key 0", "key 1", "key 2", "key 3"]);
    expect(server.seen).toHaveLength(rounds * 40);
  });

  it("a page that counts nothing, or less than it has, is a page", async () => {
    const { store } = await pages([
      listPage(["a", "b"], { more: true, token: "t1" }),
      listPage(["c", "d"], { count: 0 }),
    ]);
    expect(await keysOf(store)).toEqual(["a", "b", "c", "d"]);
  });

  it("B27 a page that is refused twice is asked for again", async () => {
    const server = await scriptedS3((seen, response) => {
      if (seen.nth === 2 || seen.nth === 3) {
        refuse(response, 503, "SlowDown");
        return;
      }
      response.end(seen.nth === 1 ? listPage(["a"], { more: true }) : listPage(["b"]));
    });
    expect(await keysOf(storeOn(server))).toEqual(["a", "b"]);
    expect(ops(server)).toBe("list list list list");
  });

  it("a limit asks for no more than it needs", async () => {
    const server = await scriptedS3();
    for (const key of ["a", "b", "c"]) server.objects.set(key, { bytes: Buffer.alloc(1), metadata: {} });
    expect(await keysOf(storeOn(server), { limit: 2, startAfter: "a" })).toEqual(["b", "c"]);
    expect(server.seen.map(({ query }) => query.get("max-keys"))).toEqual(["2"]);
  });

  it("a key prefix is put in front of everything and seen by nobody", async () => {
    const server = await scriptedS3();
    // Red without the look for "": what a console makes of the prefix was listed under no key.
    for (const key of ["other", "team/", "team/a", "team/b", "team/b/c", "team2/x"])
      server.objects.set(key, { bytes: Buffer.alloc(1), metadata: {} });
    const store = storeOn(server, { keyPrefix: "team/" });
    expect(await keysOf(store)).toEqual(["a", "b", "b/c"]);
    expect(await keysOf(store, { prefix: "b", startAfter: "a" })).toEqual(["b", "b/c"]);
    expect((await store.head("a", { signal: never }))?.key).toBe("a");
    await store.delete("a", { signal: never });
    expect([...server.objects.keys()]).toEqual(["other", "team/", "team/b", "team/b/c", "team2/x"]);
    expect(await keysOf(store, { limit: 1 })).toEqual(["b"]);
    expect(store.capabilities.maxKeyBytes).toBe(1024 - 5);
  });
});
