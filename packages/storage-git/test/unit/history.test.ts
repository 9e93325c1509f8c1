// Goal: what git prints is read rightly, whatever people have put into the history; and what is written for git comes back. Method: output of git 2.39, by hand.
import { describe, expect, it } from "vitest";
import { commitStream } from "../../src/commit-stream.js";
import { parseHistory } from "../../src/history.js";
import { commitMessage, keptObjects } from "../../src/message.js";
import { blobId, parseTree } from "../../src/snapshot.js";

const id = (digit: string): string => digit.repeat(40);
const change = (path: string, letter = "M"): string => `:100644 100644 ${id("0")} ${id("1")} ${letter}\0${path}\0`;
const commit = (own: string, parents: string, trailers: string, changes = ""): string =>
  `${id(own)}\0${parents}\0${1_700_000_000 + Number(own)}\0${trailers}\0${changes === "" ? "" : `\n${changes}`}`;

describe("a history", () => {
  it("gives each path its newest commit, by a change or by a trailer, and knows where it begins and ends", () => {
    const kept = JSON.stringify({ key: "same", metadata: { by: "test" }, contentType: "text/plain" });
    const out =
      commit("3", id("2"), kept) +
      commit("2", `${id("1")} ${id("9")}`, "", change("a") + change("b", "D")) +
      commit("1", "", "", change("a") + change("same"));
    const { tip, before, written } = parseHistory(Buffer.from(out));
    expect({ tip, before }).toEqual({ tip: id("3"), before: null });
    expect([...written].map(([path, { commit: by }]) => [path, by])).toEqual([
      ["same", id("3")],
      ["a", id("2")],
      ["b", id("2")],
    ]);
    expect(written.get("same")).toMatchObject({
      metadata: { by: "test" },
      contentType: "text/plain",
      atMs: 1_700_000_003_000,
    });
    expect(parseHistory(Buffer.from(commit("2", `${id("1")} ${id("9")}`, ""))).before).toBe(id("1"));
    expect(parseHistory(Buffer.alloc(0))).toEqual({ tip: null, before: null, written: new Map() });
  });

  it("that ends in the middle is CORRUPT", () => {
    expect(() => parseHistory(Buffer.from(`${id("1")}\0`))).toThrow("[CORRUPT]");
  });

  it("leaves out trailers that are not ours to read, and paths that are no text", () => {
    expect(keptObjects('{"key":1}\nnot json\n{"key":"a","metadata":{"B":"x"}}\n{"key":"b"}')).toEqual([
      { key: "b", metadata: {} },
    ]);
    const odd = Buffer.concat([
      Buffer.from(commit("1", "", "", "x").slice(0, -2)),
      Buffer.from(`\n:100644 100644 ${id("0")} ${id("1")} A\0`),
      Buffer.from([0xff, 0]),
    ]);
    expect([...parseHistory(odd).written]).toEqual([]);
  });
});

describe("a tree", () => {
  const written = new Map([
    ["a b", { commit: id("1"), atMs: 0, metadata: {} }],
    ["link", { commit: id("1"), atMs: 0, metadata: {} }],
  ]);
  it("has files, links and submodules, with sizes", () => {
    const out = `100755 blob ${id("2")}      12\ta b\x00120000 blob ${id("3")}       1\tlink\0`;
    const tree = parseTree(Buffer.from(out), written);
    expect(tree.get("a b")).toMatchObject({ kind: "file", executable: true, size: 12, blob: id("2") });
    expect(tree.get("link")).toMatchObject({ kind: "link" });
  });

  it("with a path that the history does not name is CORRUPT", () => {
    expect(() => parseTree(Buffer.from(`100644 blob ${id("2")} 1\tc\0`), written)).toThrow(
      '[CORRUPT] the history of the branch does not name "c"',
    );
  });

  it("has the ids that git gives", () => {
    expect(blobId(Buffer.from("hi"))).toBe("32f95c0d1244a78b2be1bab8de17906fabb2c4a8");
  });
});

describe("a commit", () => {
  it("has the subject, the lines once each, then the trailers", () => {
    const message = commitMessage({
      subject: "s",
      lines: ["x", "y", "x"],
      objects: [{ key: 'a"b', metadata: {} }],
      writeId: "id",
    });
    expect(message).toBe('s\n\n- x\n- y\n\nHoldfast-Object: {"key":"a\\"b","metadata":{}}\nHoldfast-Write: id\n');
  });

  it("removes before it writes, and quotes paths", () => {
    const changes = new Map([
      ['a"\\/b', { do: "write" as const, bytes: Buffer.from("1"), executable: true, kept: null }],
      ["a", { do: "remove" as const }],
    ]);
    const stream = Buffer.concat(
      commitStream({ parent: id("1"), changes, message: "m", author: { name: "n", email: "e" }, atSeconds: 5 }),
    ).toString();
    expect(stream).toContain(`from ${id("1")}\nD "a"\nM 100755 inline "a\\"\\\\/b"\ndata 1\n1\n`);
    expect(stream).toContain("committer n <e> 5 +0000\ndata 1\nm\n");
  });
});
