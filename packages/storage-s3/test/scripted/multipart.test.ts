// Goal: an object of several parts is there as a whole or not at all, and what does not become an object does not stay. Method: the scripted
// server counts uploads that are still open; parts fail, stall and lose their answers.
import { errorCode, writeIdKey, type PutOptions } from "@holdfast/object-store";
import { describe, expect, it } from "vitest";
import {
  etagOf,
  ops,
  refuse,
  reset,
  scriptedS3,
  storeOn,
  type Script,
  type ScriptedS3,
} from "../support/scripted-s3.js";

const MiB = 2 ** 20;
const never = new AbortController().signal;
const piece = Buffer.from(Uint8Array.from({ length: MiB }, (_, i) => (i * 31 + (i >> 8) * 7) & 255));
const size = 66 * MiB + 5;

/** A body just above the smallest threshold, in pieces that do not fit the parts. */
const body = {
  size,
  async *open() {
    yield piece.subarray(0, 5);
    for (let i = 0; i < 66; i++) yield piece;
  },
};

async function put(
  script: Script,
  o: Partial<PutOptions> & { signal?: AbortSignal; conditionalComplete?: boolean } = {},
) {
  const server = await scriptedS3(script);
  const multipart = { thresholdBytes: 65 * MiB, partBytes: 16 * MiB, concurrency: 2 };
  const store = storeOn(server, { multipart, conditionalComplete: o.conditionalComplete ?? true });
  const metadata = { [writeIdKey]: "mine" };
  const result = await store.put("k", body, { mode: "create", metadata, signal: never, ...o });
  return { server, result };
}

const honestly: Script = (_seen, _response, honest) => honest();
const isWhole = (server: ScriptedS3): boolean => {
  const there = server.objects.get("k")?.bytes;
  return there?.length === size && there.subarray(5, 5 + MiB).equals(piece) && there.subarray(size - MiB).equals(piece);
};

describe("an object above the threshold", () => {
  it("goes up in parts under the mode's condition, and is looked at", async () => {
    const { server, result } = await put(honestly);
    // The etag is the one that a look shows; this server's answer to the end of an upload tells another, "e-1".
    const etag = etagOf(server.objects.get("k")?.bytes ?? Buffer.alloc(0)).replaceAll('"', "");
    expect(result).toEqual({ outcome: "created", etag });
    expect(isWhole(server)).toBe(true);
    expect(ops(server)).toBe("begin part part part part part complete head");
    expect(server.seen.at(-2)?.headers["if-none-match"]).toBe("*");
    expect(server.uploads.size).toBe(0);
  });

  // As Ceph 16 does. Red without `usualEtag` in `complete`: nothing else tells whose the object is, since the put has no write id.
  it("an overwrite whose end is answered without an etag is known by the one that S3 makes of parts", async () => {
    const sums = new Map<number, string>();
    const ending =
      (etag: (usual: string) => string): Script =>
      (seen, response, honest) => {
        if (seen.op === "part") sums.set(Number(seen.query.get("partNumber")), etagOf(seen.body).slice(1, -1));
        const all = Buffer.from([1, 2, 3, 4, 5].map((number) => sums.get(number)).join(""), "hex");
        if (seen.op === "complete")
          response.end("<CompleteMultipartUploadResult><ETag/></CompleteMultipartUploadResult>");
        else if (seen.op === "head")
          response.writeHead(200, { "content-length": size, etag: etag(`${etagOf(all).slice(1, -1)}-5`) }).end();
        else honest();
      };
    const o = { mode: "overwrite", metadata: {} } as const;
    const known = await put(
      ending((usual) => `"${usual}"`),
      o,
    );
    expect(known.result).toEqual({ outcome: "created", etag: expect.stringMatching(/^[0-9a-f]{32}-5$/) as string });
    expect(
      (
        await put(
          ending((usual) => `"0${usual.slice(1)}x"`),
          o,
        )
      ).result.outcome,
    ).toBe("unknown");
  });

  it("a create goes in one PUT where the store looks at no condition of an upload; an overwrite in parts", async () => {
    const whole = await put(honestly, { conditionalComplete: false });
    expect([whole.result.outcome, ops(whole.server)]).toEqual(["created", "put head"]);
    const parts = await put(honestly, { conditionalComplete: false, mode: "overwrite" });
    expect(ops(parts.server)).toBe("begin part part part part part complete head");
    expect(parts.server.seen.at(-2)?.headers["if-none-match"]).toBeUndefined();
  });

  it("a part that fails for a moment is sent again with its own bytes", async () => {
    const { server, result } = await put((seen, response, honest) => {
      if (seen.op === "part" && seen.nth === 2) {
        refuse(response, 503, "SlowDown");
        return;
      }
      if (seen.op === "part" && seen.nth === 4) {
        reset(response);
        return;
      }
      honest();
    });
    expect(result.outcome).toBe("created");
    expect(isWhole(server)).toBe(true);
  });

  it("a part that cannot be sent ends the put: failed, the upload given up", async () => {
    const { server, result } = await put((seen, response, honest) => {
      if (seen.op === "part" && seen.query.get("partNumber") === "3") refuse(response, 403, "AccessDenied");
      else honest();
    });
    expect([result.outcome, "error" in result && errorCode(result.error)]).toEqual(["failed", "ACCESS_DENIED"]);
    expect(server.uploads.size).toBe(0);
    expect(server.objects.has("k")).toBe(false);
  });

  it("SP-14 a part that stalls ends at the signal: failed, and the upload is given up at once", async () => {
    const abort = new AbortController();
    let given = (): void => undefined;
    const gaveUp = new Promise<void>((resolve) => (given = resolve));
    const { server, result } = await put(
      (seen, _response, honest) => {
        if (seen.op === "part" && seen.query.get("partNumber") === "2") {
          abort.abort();
          return;
        }
        honest();
        if (seen.op === "giveUp") given();
      },
      { signal: abort.signal },
    );
    expect([result.outcome, "error" in result && errorCode(result.error)]).toEqual(["failed", "CANCELED"]);
    await gaveUp;
    expect(server.uploads.size).toBe(0);
  });

  // Red, and never ending, without `untilAborted` in `giveUp`: the SDK looks at a signal only once it has credentials.
  it("giving up ends after 5 s also where credentials never come, and so does a put without a deadline", async () => {
    let hangs = false;
    let asked = (): void => undefined;
    const asking = new Promise<void>((resolve) => (asked = resolve));
    const server = await scriptedS3((seen, response, honest) => {
      if (seen.op === "part") {
        hangs = true;
        refuse(response, 403, "AccessDenied");
      } else honest();
    });
    const timers: { ms: number; fire: () => void }[] = [];
    const store = storeOn(server, {
      multipart: { thresholdBytes: 65 * MiB, partBytes: 16 * MiB, concurrency: 1 },
      credentials: () => {
        if (hangs) asked();
        const keys = { accessKeyId: "key-id", secretAccessKey: "hidden-key", expiration: new Date(1) };
        return hangs ? new Promise<never>(() => undefined) : Promise.resolve(keys);
      },
      clock: {
        sleep: () => Promise.resolve(),
        setTimer(ms, fire) {
          timers.push({ ms, fire });
          return { cancel: () => undefined };
        },
      },
    });
    const result = store.put("k", body, { mode: "overwrite", signal: never });
    await asking;
    expect(timers.map(({ ms }) => ms)).toEqual([5_000]);
    timers[0]?.fire();
    expect(await result).toMatchObject({ outcome: "failed", error: { code: "ACCESS_DENIED" } });
    expect(ops(server)).toBe("begin part");
  });

  it("a lost answer to the last request: our object is recognised", async () => {
    const { server, result } = await put((seen, response, honest) => {
      if (seen.op !== "complete") {
        honest();
        return;
      }
      response.end = () => {
        reset(response);
        return response;
      };
      honest();
    });
    expect(result.outcome).toBe("created");
    expect(isWhole(server)).toBe(true);
    expect(ops(server)).toBe("begin part part part part part complete giveUp head");
  });

  // Red without `NoSuchUpload` in `meaningOf`: a create was NOT_FOUND, and a replacement was told that its etag had been refused.
  it.each([["create"], [{ ifMatch: "before" }]] as const)(
    "an upload that somebody has ended under a put (%j): failed, and why",
    async (mode) => {
      const { server, result } = await put(
        (seen, response, honest) =>
          seen.op === "part" && seen.nth === 2 ? refuse(response, 404, "NoSuchUpload") : honest(),
        { mode },
      );
      expect(result).toMatchObject({ outcome: "failed", error: { code: "UNAVAILABLE" } });
      expect("error" in result && result.error.message).toContain("the upload in parts is no longer there");
      expect(ops(server)).not.toMatch(/complete|head/);
    },
  );

  // Red without `stored: "maybe"` in `complete`: it was `failed`.
  it("the last request finds no upload: an attempt whose answer was lost may have completed it, so unknown", async () => {
    const { server, result } = await put(
      (seen, response, honest) => (seen.op === "complete" ? refuse(response, 404, "NoSuchUpload") : honest()),
      { mode: "overwrite" },
    );
    expect(result).toMatchObject({ outcome: "unknown", error: { code: "UNAVAILABLE" } });
    expect(ops(server)).toMatch(/complete giveUp$/);
  });

  it("the condition did not hold: exists, and no parts stay", async () => {
    const { server, result } = await put((seen, response, honest) => {
      if (seen.op === "complete") refuse(response, 412, "PreconditionFailed");
      else if (seen.op === "head") response.writeHead(200, { "content-length": 5, etag: '"other"' }).end();
      else honest();
    });
    expect(result).toMatchObject({ outcome: "exists", info: { etag: "other" } });
    expect(server.uploads.size).toBe(0);
  });

  it("an error inside a 200 is an error", async () => {
    const { result } = await put(
      (seen, response, honest) => {
        if (seen.op === "complete") response.end("<Error><Code>InternalError</Code></Error>");
        else honest();
      },
      { mode: "overwrite" },
    );
    expect(result.outcome).toBe("unknown");
  });

  // Red without the step `holdfastStatus`: the SDK makes a 503 of such a 200, and a 503 SlowDown proves that nothing was done.
  it("a throttle inside a 200 proves nothing: unknown, and told as what came", async () => {
    const { server, result } = await put(
      (seen, response, honest) => {
        if (seen.op === "complete") response.end("<Error><Code>SlowDown</Code></Error>");
        else honest();
      },
      { mode: "overwrite" },
    );
    expect(result.outcome).toBe("unknown");
    expect("error" in result && result.error.message).toContain("answered 200, with the error SlowDown inside");
    expect(ops(server)).toBe("begin part part part part part complete giveUp");
  });

  it("a create that was throttled inside a 200, and is done, is recognised", async () => {
    const { server, result } = await put((seen, response, honest) => {
      if (seen.op !== "complete") {
        honest();
        return;
      }
      const end = response.end.bind(response);
      response.end = () => end("<Error><Code>SlowDown</Code></Error>");
      honest();
    });
    expect(result.outcome).toBe("created");
    expect(isWhole(server)).toBe(true);
    expect(ops(server)).toBe("begin part part part part part complete giveUp head");
  });

  it("a throttle that is one, a 503, has done nothing: failed", async () => {
    const { result } = await put(
      (seen, response, honest) => {
        if (seen.op === "complete") refuse(response, 503, "SlowDown");
        else honest();
      },
      { mode: "overwrite" },
    );
    expect(result.outcome).toBe("failed");
  });
});
