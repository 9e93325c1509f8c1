// Goal: what only a real server shows: packs in one PUT, parts, checksums that it checks, conditions that it looks at, leftovers; and that
// nothing of a stuck disk keeps a call from ending. Method: Ceph's gateway; the plain SDK is the oracle for what lies in the bucket.
import { createHash } from "node:crypto";
import { execFileSync } from "node:child_process";
import { constants, createReadStream, openSync, closeSync } from "node:fs";
import { mkdtemp, open, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Lateness, until } from "@holdfast-private/tests-machine";
import { bind } from "@holdfast/deadline-http/aws";
import { within } from "@holdfast/deadline-http";
import { errorCode, probe, type Body } from "@holdfast/object-store";
import { s3Store } from "@holdfast/storage-s3";
import { describe, expect, it, onTestFinished } from "vitest";
import { bucketOfThisFile, cephOptions, openStore, server } from "../support/rgw.js";
import * as sdk from "@aws-sdk/client-s3";

const MiB = 2 ** 20;
const never = new AbortController().signal;
/** Ends what hangs. */
const hangMs = 300_000;
const client = () => new sdk.S3Client({ ...server!, forcePathStyle: true });

async function fileBody(size: number): Promise<{ body: Body; sha256: string }> {
  const folder = await mkdtemp(join(tmpdir(), "holdfast-s3-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const bytes = Buffer.alloc(size, "a pack of the test, which repeats itself 0123456789");
  const path = join(folder, "pack");
  await writeFile(path, bytes);
  const sha256 = createHash("sha256").update(bytes).digest("hex");
  return { body: { size, open: () => createReadStream(path) }, sha256 };
}

async function sha256Of(key: string, bucket: string): Promise<string> {
  const answer = await client().send(new sdk.GetObjectCommand({ Bucket: bucket, Key: key }));
  const hash = createHash("sha256");
  for await (const piece of answer.Body as AsyncIterable<Uint8Array>) hash.update(piece);
  return hash.digest("hex");
}

describe.skipIf(server === null)("s3Store on a real server", () => {
  const bucket = bucketOfThisFile();

  it.each(["crc32", "md5", "none"] as const)(
    "a pack of 64 MiB from a file goes out in one PUT (%s), byte for byte",
    async (checksum) => {
      const { body, sha256 } = await fileBody(64 * MiB);
      const result = await openStore({ bucket, checksum }).put(`pack/${checksum}`, body, {
        mode: "create",
        signal: never,
      });
      expect(result).toMatchObject({ outcome: "created" });
      expect("etag" in result && result.etag, "an object of parts has an etag with a dash").toMatch(/^[0-9a-f]{32}$/);
      expect(await sha256Of(`pack/${checksum}`, bucket)).toBe(sha256);
    },
  );

  it("SP-14 an overwrite above the threshold goes in parts, byte for byte, and leaves no upload open", async () => {
    const { body, sha256 } = await fileBody(65 * MiB);
    const store = openStore({ bucket, multipart: { thresholdBytes: 64 * MiB + 1, partBytes: 8 * MiB } });
    const result = await store.put("parts", body, { mode: "overwrite", metadata: { a: "1" }, signal: never });
    expect("etag" in result && result.etag).toMatch(/-9$/);
    expect(await sha256Of("parts", bucket)).toBe(sha256);
    expect((await store.head("parts", { signal: never }))?.metadata).toEqual({ a: "1" });
    await using lateness = await Lateness.start();
    const stopped = new AbortController();
    let stoppedAt = NaN;
    const cut = {
      size: 65 * MiB,
      async *open() {
        yield new Uint8Array(40 * MiB);
        stoppedAt = performance.now();
        stopped.abort();
        yield new Uint8Array(25 * MiB);
      },
    };
    expect((await store.put("cut", cut, { mode: "overwrite", signal: stopped.signal })).outcome).toBe("failed");
    const openUploads = async () =>
      (await client().send(new sdk.ListMultipartUploadsCommand({ Bucket: bucket }))).Uploads ?? [];
    await until("the upload is given up", async () => (await openUploads()).length === 0);
    const tookMs = performance.now() - stoppedAt;
    expect(tookMs).toBeLessThanOrEqual(5000 + (await lateness.sinceMs(stoppedAt)));
    expect(await store.head("cut", { signal: never })).toBe(null);
  });

  it("a body that changes between its readings is refused by the server (md5): failed with CORRUPT, nothing stored", async () => {
    let reading = 0;
    const body = {
      size: 300_000,
      async *open() {
        yield new Uint8Array(300_000).fill(reading++);
      },
    };
    const store = openStore({ bucket, checksum: "md5", random: () => 0 });
    const result = await store.put("changing", body, { mode: "create", signal: never });
    expect([result.outcome, "error" in result && errorCode(result.error)]).toEqual(["failed", "CORRUPT"]);
    expect(await store.head("changing", { signal: never })).toBe(null);
  });

  it("the probe finds both conditions honoured, and finds out a server that is asked in the wrong way", async () => {
    expect(await probe(openStore({ bucket }), { prefix: "probe/", signal: never })).toMatchObject({
      create: true,
      ifMatch: true,
    });
    const quoted = openStore({ bucket, ifMatch: "quoted" });
    await quoted.put("quoted", new Uint8Array(1), { mode: "create", signal: never });
    const { etag } = (await quoted.head("quoted", { signal: never }))!;
    const refused = await quoted.put("quoted", new Uint8Array(2), { mode: { ifMatch: etag }, signal: never });
    expect("error" in refused && refused.error.message).toContain('set ifMatch to "unquoted"');
  });

  it("wrong keys are ACCESS_DENIED; a bucket that is not there is CONFIG_INVALID", async () => {
    const credentials = { ...server!.credentials, secretAccessKey: "not-it" };
    const denied = await openStore({ bucket, credentials }).put("k", new Uint8Array(1), {
      mode: "create",
      signal: never,
    });
    expect([denied.outcome, "error" in denied && errorCode(denied.error)]).toEqual(["failed", "ACCESS_DENIED"]);
    const nowhere = await openStore({ bucket: "not-there" }).put("k", new Uint8Array(1), {
      mode: "create",
      signal: never,
    });
    expect([nowhere.outcome, "error" in nowhere && errorCode(nowhere.error)]).toEqual(["failed", "CONFIG_INVALID"]);
  });

  it("a client bound by deadline-http works, and ends by its scope", async () => {
    const store = s3Store({ client: bind(client()), bucket, storeId: "bound", ...cephOptions });
    const { body, sha256 } = await fileBody(3 * MiB);
    expect((await within(hangMs, () => store.put("bound", body, { mode: "create", signal: never }))).outcome).toBe(
      "created",
    );
    expect(await sha256Of("bound", bucket)).toBe(sha256);
    const { bytes } = await within(hangMs, () =>
      store.get("bound", { range: { offset: 5, length: 5 }, signal: never }),
    );
    expect(bytes.length).toBe(5);
  });

  it("four file operations that never return keep no call from ending on time, nor from working", async () => {
    const folder = await mkdtemp(join(tmpdir(), "holdfast-fifo-"));
    const names = [1, 2, 3, 4].map((n) => join(folder, `fifo${n}`));
    execFileSync("mkfifo", names);
    const store = openStore({ bucket });
    // Each takes one of the four threads that Node has for files and names, for ever: nobody writes into these.
    const stuck = names.map((name) => open(name, "r"));
    try {
      const bytes = new Uint8Array(1000).fill(7);
      expect((await store.put("beside", bytes, { mode: "create", signal: never })).outcome).toBe("created");
      expect((await store.get("beside", { range: { offset: 1, length: 9 }, signal: never })).bytes.length).toBe(9);
      // And one whose own body is behind the stuck threads ends in a turn or two of its abort.
      const late = Object.assign(new Error("5 ms ran out"), { code: "DEADLINE_EXCEEDED" });
      const abort = new AbortController();
      let ask = (): void => undefined;
      const asked = new Promise<void>((resolve) => (ask = resolve));
      const body = { size: 10, open: () => (ask(), createReadStream(names[0]!)) };
      const work = store.put("stuck", body, { mode: "create", signal: abort.signal });
      await asked;
      for (let turn = 0; turn < 20; turn++) await nextTurn();
      abort.abort(late);
      const turns = async () => {
        for (let turn = 0; turn < 20; turn++) await nextTurn();
        return "not ended";
      };
      expect(await Promise.race([work, turns()])).toEqual({ outcome: "failed", error: late });
    } finally {
      // A writer lets each open return; otherwise the process could not end.
      for (const name of names) closeSync(openSync(name, constants.O_RDWR | constants.O_NONBLOCK));
      for (const one of stuck) await one.then((file) => file.close());
      await rm(folder, { recursive: true });
    }
  });
});
