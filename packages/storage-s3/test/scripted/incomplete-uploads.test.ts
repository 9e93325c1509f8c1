// Goal: only what is older than the age is ended, by the server's clock; nothing is believed that could end somebody else's upload; what cannot
// be done is an error. Method: the scripted server holds uploads with ages of their own, and says what time it is.
import { abortIncompleteUploads, type ConnectionOptions } from "@holdfast/storage-s3";
import { describe, expect, it } from "vitest";
import { ops, refuse, reset, scriptedS3, type Script, type ScriptedS3 } from "../support/scripted-s3.js";

const never = new AbortController().signal;
const now = Date.UTC(2001, 0, 1, 12); // far from this machine's clock, which must not matter
const hour = 3_600_000;

type Upload = { key: string; id: string; ageMs: number };
const xml = (text: string): string => text.replaceAll("&", "&amp;");
const page = (uploads: readonly Upload[], more = false): string =>
  `<ListMultipartUploadsResult><IsTruncated>${more}</IsTruncated>${uploads
    .map(
      ({ key, id, ageMs }) =>
        `<Upload><Key>${xml(key)}</Key><UploadId>${id}</UploadId><Initiated>${new Date(now - ageMs).toISOString()}</Initiated></Upload>`,
    )
    .join("")}</ListMultipartUploadsResult>`;

/** A server with these uploads, `perPage` in a page; `first` may answer before it. */
async function serverWith(uploads: readonly Upload[], first: Script = (_s, _r, honest) => honest(), perPage = 1000) {
  const open = [...uploads];
  const server = await scriptedS3((seen, response, honest) =>
    first(seen, response, () => {
      if (seen.op !== "uploads" && seen.op !== "giveUp") {
        honest();
        return;
      }
      response.setHeader("date", new Date(now).toUTCString());
      if (seen.op === "giveUp") {
        const at = open.findIndex(({ key, id }) => key === seen.key && id === seen.query.get("uploadId"));
        if (at < 0) refuse(response, 404, "NoSuchUpload");
        else {
          open.splice(at, 1);
          response.writeHead(204).end();
        }
        return;
      }
      const after = [seen.query.get("key-marker") ?? "", seen.query.get("upload-id-marker") ?? ""].join("\n");
      const fitting = open
        .filter(({ key }) => key.startsWith(seen.query.get("prefix") ?? ""))
        .filter(({ key, id }) => [key, id].join("\n") > after);
      response.end(page(fitting.slice(0, perPage), fitting.length > perPage));
    }),
  );
  return { server, left: () => open.map(({ id }) => id) };
}

const sweep = (
  server: ScriptedS3,
  olderThanMs: number,
  o: Partial<ConnectionOptions> & { signal?: AbortSignal } = {},
) =>
  abortIncompleteUploads(
    {
      endpoint: server.url,
      bucket: "bucket",
      allowHttp: true,
      credentials: { accessKeyId: "key-id", secretAccessKey: "hidden-key" },
      random: () => 0,
      ...o,
      client: undefined,
    },
    { olderThanMs, signal: o.signal ?? never },
  );

describe("abortIncompleteUploads", () => {
  // Red with Date.now() in place of the server's date (all are 25 years old then), with `>` for `>=`, and without the second that is taken off.
  it("ends those that are old enough by the server's clock, and no other", async () => {
    const { server, left } = await serverWith([
      { key: "a", id: "fresh", ageMs: 0 },
      { key: "b", id: "just-too-young", ageMs: hour + 999 },
      { key: "c", id: "old", ageMs: hour + 1_000 },
      { key: "d", id: "from-tomorrow", ageMs: -24 * hour },
    ]);
    expect(await sweep(server, hour)).toEqual({ found: 4, aborted: 1, young: 3, gone: 0 });
    expect(left()).toEqual(["fresh", "just-too-young", "from-tomorrow"]);
    expect(ops(server)).toBe("uploads giveUp");
  });

  // Red without the check of the prefix: a server that ignores it would have everybody's uploads ended.
  it("looks under the store's prefix only, and ends nothing of an answer with another's", async () => {
    const uploads = [
      { key: "ours/ ä +%20&amp; ", id: "1", ageMs: hour },
      { key: "theirs/b", id: "2", ageMs: hour },
    ];
    const { server, left } = await serverWith(uploads);
    expect(await sweep(server, 1, { keyPrefix: "ours/" })).toEqual({ found: 1, aborted: 1, young: 0, gone: 0 });
    expect(server.seen[0]?.query.get("prefix")).toBe("ours/");
    // Ceph 16 would encode the keys and not say so.
    expect(server.seen[0]?.query.has("encoding-type")).toBe(false);
    expect(left()).toEqual(["2"]);

    const deaf = await serverWith(uploads, (seen, response, honest) => {
      if (seen.op !== "uploads") {
        honest();
        return;
      }
      response.writeHead(200, { date: new Date(now).toUTCString() }).end(page(uploads));
    });
    await expect(sweep(deaf.server, 1, { keyPrefix: "ours/" })).rejects.toMatchObject({ code: "CORRUPT" });
    expect(deaf.left()).toEqual(["1", "2"]);
  });

  it("goes on page by page behind the last upload, several of one key included", async () => {
    const uploads = ["a", "a", "a", "b", "c"].map((key, i) => ({ key, id: `u${i}`, ageMs: i % 2 === 0 ? hour : 0 }));
    const { server, left } = await serverWith(uploads, undefined, 2);
    expect(await sweep(server, 60_000)).toEqual({ found: 5, aborted: 3, young: 2, gone: 0 });
    expect(left()).toEqual(["u1", "u3"]);
    const markers = server.seen
      .filter(({ op }) => op === "uploads")
      .map(({ query }) => [query.get("key-marker"), query.get("upload-id-marker")]);
    expect(markers).toEqual([[null, null], ["a", "u1"], ["b", "u3"]]); // prettier-ignore
  });

  it("one that was completed or aborted meanwhile is gone, and no error; also by our own attempt whose answer was lost", async () => {
    const uploads = ["a", "b"].map((key) => ({ key, id: key, ageMs: hour }));
    const { server } = await serverWith(uploads, (seen, response, honest) => {
      if (seen.op === "giveUp" && seen.key === "a") refuse(response, 404, "NoSuchUpload");
      else honest();
    });
    expect(await sweep(server, 1)).toEqual({ found: 2, aborted: 1, young: 0, gone: 1 });
    const lossy = await serverWith(uploads.slice(0, 1), (seen, response, honest) => {
      // The connection goes first; the server does what it was told all the same.
      if (seen.op === "giveUp" && seen.nth === 1) reset(response);
      honest();
    });
    expect(await sweep(lossy.server, 1)).toEqual({ found: 1, aborted: 0, young: 0, gone: 1 });
    expect(ops(lossy.server)).toBe("uploads giveUp giveUp");
    expect(lossy.left()).toEqual([]);
  });

  // Red with Promise.all over everything: the other five hundred would be ended behind the caller's back.
  it("an abort that is refused is the call's error, and nothing is ended after it", async () => {
    const uploads = Array.from({ length: 500 }, (_, i) => ({ key: `k${i}`, id: `u${i}`, ageMs: hour }));
    const { server, left } = await serverWith(uploads, (seen, response, honest) => {
      if (seen.op === "giveUp" && seen.nth === 2) refuse(response, 403, "AccessDenied");
      else honest();
    });
    await expect(sweep(server, 1, { multipart: { concurrency: 2 } })).rejects.toMatchObject({ code: "ACCESS_DENIED" });
    expect(left().length).toBe(499);
    expect(ops(server)).toBe("uploads giveUp giveUp");
  });

  it.each([
    ["no date", undefined, page([{ key: "k", id: "u", ageMs: hour }])],
    // Red without the look for GMT.
    ["a date of no zone", "Mon Jan  1 12:00:00 2001", page([{ key: "k", id: "u", ageMs: hour }])],
    ["no listing", new Date(now).toUTCString(), "<html></html>"],
    [
      "an upload without a time",
      new Date(now).toUTCString(),
      "<R><IsTruncated>false</IsTruncated><Upload><Key>k</Key><UploadId>u</UploadId></Upload></R>",
    ],
    ["the same page for ever", new Date(now).toUTCString(), page([{ key: "k", id: "u", ageMs: 0 }], true)],
    ["more to come, and nothing here", new Date(now).toUTCString(), page([], true)],
  ])("an answer with %s is CORRUPT, and ends nothing", async (_what, date, body) => {
    const server = await scriptedS3((seen, response) => {
      if (seen.op === "giveUp") response.writeHead(204).end();
      response.sendDate = false;
      response.writeHead(200, date === undefined ? {} : { date }).end(body);
    });
    await expect(sweep(server, 60_000)).rejects.toMatchObject({ code: "CORRUPT" });
    expect(ops(server)).not.toContain("giveUp");
  });

  it("ends with its signal, and begins nothing with one that is aborted", async () => {
    const abort = new AbortController();
    const late = Object.assign(new Error("the deadline"), { code: "DEADLINE_EXCEEDED" });
    const server = await scriptedS3(() => abort.abort(late));
    await expect(sweep(server, 1, { signal: abort.signal })).rejects.toBe(late);
    await expect(sweep(server, 1, { signal: abort.signal })).rejects.toBe(late);
    expect(server.seen.length).toBe(1);
  });

  it.each([0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY])(
    "olderThanMs %s is refused, nothing is sent",
    async (age) => {
      const server = await scriptedS3();
      await expect(sweep(server, age)).rejects.toMatchObject({ code: "CONFIG_INVALID" });
      expect(server.seen).toEqual([]);
    },
  );
});
