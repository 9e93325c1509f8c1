// Goal: the spool's promises while it runs, with a disk that works and with one that does not. Method: a file system in memory
// whose calls are traced and can fail on demand; virtual time where time decides.
import { join } from "node:path";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { packKey, parsePackKey } from "@holdfast/indexer";
import { describe, expect, it } from "vitest";
import { codeOf } from "../../src/errors.js";
import { parseName } from "../../src/spool/names.js";
import { PowerFiles, systemError, type Operation } from "../support/power-files.js";
import { directory, idsIn, open, record, settings } from "../support/spool.js";

const short = (operation: Operation): string => {
  const name = operation.path.split("/").at(-1) ?? "";
  const kind = parseName(name)?.kind ?? (name === "spool" ? "directory" : name);
  return `${operation.name} ${kind}`;
};
const codes = async (promise: Promise<unknown>): Promise<string | undefined> =>
  promise.then(
    () => undefined,
    (error: unknown) => codeOf(error),
  );

describe("a spool on a disk that works", () => {
  it("SP-03 writes, datasyncs and names a file before its first receipt, and seals it in place: link, unlink, directory", async () => {
    const files = new PowerFiles();
    const spool = await open(files);
    files.trace.length = 0;
    const receipt = await spool.append([record()]);
    await receipt.durable();
    expect(files.trace.map(short)).toEqual([
      "open begun",
      "write begun",
      "write begun",
      "datasync begun",
      "rename open",
      "syncDirectory directory",
    ]);
    const opened = parseName(files.names(directory).find((name) => name.endsWith(".open"))!)!;
    files.trace.length = 0;
    await spool.seal("manual");
    expect(files.trace.map(short)).toEqual([
      "write begun",
      "datasync begun",
      "link sealed",
      "syncDirectory directory",
      "unlink open",
      "syncDirectory directory",
    ]);
    const [pack] = spool.shelf.packs;
    expect(pack).toMatchObject({ writerId: opened.writerId, sequence: opened.sequence, records: 1 });
    expect(pack).toHaveProperty("packId", "packId" in opened ? opened.packId : "");
    await spool.close();
  });

  it("copies the payload before it returns: what the caller writes into its buffer later is not seen", async () => {
    const files = new PowerFiles();
    const spool = await open(files);
    const bytes = new Uint8Array(100).fill(7);
    const { admitRecord } = await import("../../src/records.js");
    const { notes } = await import("../support/spool.js");
    const rules = {
      schema: notes,
      codec: "none",
      maxRecordBytes: 1000,
      clock: new VirtualClock(),
      newId: () => "a",
    } as const;
    const admitted = admitRecord(rules, {
      scope: { tenant: "t", session: "s" },
      fields: { kind: "k", step: 1n, tags: {}, shape: [] },
      payload: new DataView(bytes.buffer, 10, 20),
    });
    bytes.fill(0);
    expect(admitted.record.payload).toEqual(new Uint8Array(20).fill(7));
    await spool.close();
  });

  it("groups what is appended in one turn into one write and one datasync", async () => {
    const files = new PowerFiles();
    const spool = await open(files);
    await (await spool.append([record()])).durable();
    files.trace.length = 0;
    const receipts = await Promise.all(Array.from({ length: 50 }, () => spool.append([record()])));
    await Promise.all(receipts.map((receipt) => receipt.durable()));
    expect(files.trace.map((operation) => operation.name)).toEqual(["write", "datasync"]);
    await spool.close();
  });

  it("writes all bytes when the system takes fewer than it was given", async () => {
    const files = new PowerFiles();
    files.interfere = (operation) => (operation.name === "write" ? Math.ceil((operation.bytes ?? 0) / 3) : undefined);
    const spool = await open(files);
    await (await spool.append([record({ id: "short", bytes: 5000 })])).durable();
    await spool.seal("manual");
    expect(await idsIn(spool, spool.shelf.packs[0]!)).toEqual(["short"]);
    await spool.close();
  });

  it("seals by size, by record count and by linger, and says which", async () => {
    const clock = new VirtualClock();
    const spool = await open(new PowerFiles(), { clock, maxPackBytes: 100_000, maxPackRecords: 5, maxLingerMs: 1000 });
    await spool.append([record({ bytes: 60_000 })]);
    await (await spool.append([record({ bytes: 60_000 })])).durable();
    expect(spool.status().sealedPacks).toMatchObject({ size: 1, records: 0, linger: 0 });
    await spool.seal("manual");
    await (await spool.append(Array.from({ length: 6 }, () => record()))).durable();
    expect(spool.status().sealedPacks).toMatchObject({ records: 1, linger: 0 });
    await clock.advance(999);
    expect(spool.status().sealedPacks.linger).toBe(0);
    await clock.advance(1);
    while (!spool.isSettled) await new Promise((resolve) => setImmediate(resolve));
    expect(spool.status().sealedPacks).toMatchObject({ size: 1, records: 1, linger: 1, manual: 1 });
    await spool.close();
  });

  it("refuses an id that is queued or in the pack already, and takes nothing of that batch", async () => {
    const spool = await open(new PowerFiles());
    const receipt = await spool.append([record({ id: "one" })]);
    expect(await codes(spool.append([record({ id: "two" }), record({ id: "one" })]))).toBe("RECORD_INVALID");
    await receipt.durable();
    expect(await codes(spool.append([record({ id: "one" })]))).toBe("RECORD_INVALID");
    expect(await codes(spool.append([record({ id: "three" }), record({ id: "three" })]))).toBe("RECORD_INVALID");
    await (await spool.append([record({ id: "two" })])).durable();
    await spool.seal("manual");
    expect(await idsIn(spool, spool.shelf.packs[0]!)).toEqual(["one", "two"]);
    await spool.close();
    expect(await codes(spool.append([record()]))).toBe("STOPPED");
  });

  it("refuses a record that no pack can hold, naming the setting", async () => {
    const spool = await open(new PowerFiles());
    const refused = spool.append([record({ bytes: 256 * 1024 })]);
    await expect(refused).rejects.toThrow(/RECORD_TOO_LARGE.*spool\.maxPackBytes/);
    await spool.close();
  });

  it("SP-11 numbers packs densely over restarts, also when all of them have been uploaded and removed", async () => {
    const files = new PowerFiles();
    const sequences: bigint[] = [];
    const writers = new Set<string>();
    for (let restart = 0; restart < 50; restart += 1) {
      const spool = await open(files);
      for (let i = 0; i < 20; i += 1) {
        await (await spool.append([record({ bytes: 10 })])).durable();
        await spool.seal("manual");
      }
      for (const pack of [...spool.shelf.packs]) {
        const key = packKey({ catalog: "notes", ...pack });
        expect(parsePackKey(key)).toMatchObject({ catalog: "notes", sequence: pack.sequence, packId: pack.packId });
        sequences.push(pack.sequence);
        writers.add(pack.writerId);
        await spool.shelf.remove(pack);
      }
      await spool.close();
    }
    expect(sequences).toEqual(Array.from({ length: 1000 }, (_, i) => BigInt(i)));
    expect(writers.size).toBe(1);
    expect(files.names(directory)).toEqual(["holdfast-spool.json"]);
  });
});

describe("a close", () => {
  it("with appends on their way takes them whole or not at all, and leaves no open file", async () => {
    const files = new PowerFiles();
    const spool = await open(files);
    const before = Array.from({ length: 5 }, (_, i) => spool.append([record({ id: `before-${i}` })]));
    const closing = spool.close();
    const after = spool.append([record({ id: "after" })]);
    const outcomes = await Promise.all([...before, after].map((append) => codes(append)));
    await closing;
    expect(outcomes.at(-1)).toBe("STOPPED");
    expect(files.names(directory).filter((name) => !/\.(hfpack|json|void)$/.test(name))).toEqual([]);
    const next = await open(files);
    const ids = (await Promise.all(next.shelf.packs.map((pack) => idsIn(next, pack)))).flat();
    expect(ids).toEqual(outcomes.flatMap((code, i) => (code === undefined ? [`before-${i}`] : [])));
    await next.close();
  });
});

describe("a spool without room", () => {
  it("SP-09 never exceeds maxBytes under 16 writers, and refuses or times out by name", async () => {
    const files = new PowerFiles();
    let peak = 0;
    files.interfere = () => {
      peak = Math.max(peak, files.totalBytes(directory));
      return undefined;
    };
    const clock = new VirtualClock();
    const maxBytes = 1024 * 1024;
    const spool = await open(files, {
      clock,
      maxBytes,
      maxPackBytes: 200_000,
      admissionTimeoutMs: 500,
      maxQueuedBytes: 1 << 30,
    });
    const outcomes: (string | undefined)[] = [];
    const writers = Array.from({ length: 16 }, async () => {
      for (let i = 0; i < 20; i += 1) outcomes.push(await codes(spool.append([record({ bytes: 9_000 })])));
    });
    for (let turn = 0; turn < 40; turn += 1) await clock.advance(500);
    await Promise.all(writers);
    expect(new Set(outcomes)).toEqual(new Set([undefined, "ADMISSION_TIMEOUT"]));
    expect(peak).toBeLessThanOrEqual(maxBytes);
    expect(spool.status().peakBytes).toBeLessThanOrEqual(maxBytes);
    expect(spool.status().peakBytes).toBeGreaterThan(maxBytes * 0.8);
    await spool.close();
    const refusing = await open(files, { clock, maxBytes, maxPackBytes: 200_000, admissionTimeoutMs: 0 });
    expect(await codes(refusing.append([record({ bytes: 100_000 }), record({ bytes: 90_000 })]))).toBe("SPOOL_FULL");
    await refusing.close();
  });

  it("lets a waiting append in as soon as an upload has made room", async () => {
    const clock = new VirtualClock();
    const spool = await open(new PowerFiles(), { clock, maxBytes: 400_000, maxPackBytes: 200_000 });
    await (await spool.append([record({ bytes: 190_000 })])).durable();
    await (await spool.append([record({ bytes: 150_000 })])).durable();
    await spool.seal("manual");
    const waiting = spool.append([record({ bytes: 150_000 })]);
    await clock.advance(1999);
    expect(spool.status().waitingAppends).toBe(1);
    await spool.shelf.remove(spool.shelf.packs[0]!);
    await (await waiting).durable();
    await spool.close();
  });

  it("bounds memory while the disk does not take anything: appends wait in line, and are refused when the line is long", async () => {
    const clock = new VirtualClock();
    const files = new PowerFiles();
    const spool = await open(files, { clock, maxQueuedBytes: 10_000, maxBytes: 1 << 30, maxPackBytes: 1 << 20 });
    let release = (): void => undefined;
    const stalled = new Promise<void>((resolve) => (release = resolve));
    const original = files.open.bind(files);
    files.open = async (...args) => {
      await stalled;
      return original(...args);
    };
    const outcomes = Array.from({ length: 60 }, () => codes(spool.append([record({ bytes: 1000 })])));
    await clock.advance(10);
    expect(spool.status().queuedBytes).toBeLessThanOrEqual(10_000);
    expect(spool.status().waitingAppends).toBeGreaterThan(10);
    release();
    const results = await Promise.all(outcomes);
    expect(results.filter((code) => code === "SPOOL_FULL").length).toBeGreaterThan(10);
    expect(results.filter((code) => code === undefined).length).toBeGreaterThan(20);
    await spool.close();
  });
});

describe("a spool on a disk that fails", () => {
  it("SP-06 after a failed datasync: nothing is appended to that file, its acknowledged records are sealed from a copy under the same id, the others go on", async () => {
    const files = new PowerFiles();
    const spool = await open(files);
    await (await spool.append([record({ id: "kept" })])).durable();
    const before = parseName(files.names(directory).find((name) => name.endsWith(".open"))!)!;
    files.trace.length = 0;
    let failing = true;
    files.interfere = (operation) => {
      if (operation.name !== "datasync" || !failing) return undefined;
      failing = false;
      throw systemError("EIO", operation.path);
    };
    await (await spool.append([record({ id: "moved" })])).durable();
    await spool.seal("manual");
    const trace = files.trace.map(short);
    const failed = trace.indexOf("datasync begun");
    // The handle keeps the name with which it was opened; the new file is opened after the old one got its final name.
    expect(trace.slice(failed, failed + 4)).toEqual([
      "datasync begun",
      "truncate begun",
      "rename failed",
      "syncDirectory directory",
    ]);
    const next = trace.indexOf("open begun", failed);
    expect(trace.slice(failed, next).filter((step) => step.startsWith("write"))).not.toContain("write begun");
    const packs = spool.shelf.packs;
    expect(packs.map(({ sequence }) => sequence)).toEqual([0n, 1n]);
    expect(packs[0]).toHaveProperty("packId", "packId" in before ? before.packId : "");
    expect(await idsIn(spool, packs[0]!)).toEqual(["kept"]);
    expect(await idsIn(spool, packs[1]!)).toEqual(["moved"]);
    expect(files.names(directory).filter((name) => name.endsWith(".failed"))).toEqual([]);
    expect(spool.status()).toMatchObject({ writeFailures: 1, refusedRecords: 0, unmended: 0 });
    expect(spool.status().lastError).toMatch(/EIO/);
    await spool.close();
  });

  it("SP-06 a disk that stays broken refuses receipts and then appends, with the system's code, and recovers by itself", async () => {
    const clock = new VirtualClock();
    const files = new PowerFiles();
    const spool = await open(files, { clock });
    await (await spool.append([record({ id: "before" })])).durable();
    let broken = true;
    files.interfere = (operation) => {
      if (!broken || operation.name !== "write") return undefined;
      throw systemError("ENOSPC", operation.path);
    };
    const receipt = await spool.append([record({ id: "lost" })]);
    await expect(receipt.durable()).rejects.toMatchObject({ code: "SPOOL_UNWRITABLE", cause: { code: "ENOSPC" } });
    await expect(spool.append([record({ id: "refused" })])).rejects.toThrow(/SPOOL_UNWRITABLE.*ENOSPC/);
    broken = false;
    await clock.advance(6_000);
    await (await spool.append([record({ id: "after" })])).durable();
    await spool.seal("manual");
    await clock.advance(2_000);
    while (!spool.isSettled) await new Promise((resolve) => setImmediate(resolve));
    const ids = (await Promise.all(spool.shelf.packs.map((pack) => idsIn(spool, pack)))).flat();
    expect(ids.sort()).toEqual(["after", "before"]);
    await spool.close();
  });

  it("a seal that fails half-way keeps the acknowledged records and never cuts a file that has its sealed name", async () => {
    for (const failing of ["write", "datasync", "link", "unlink", "syncDirectory"] as const) {
      const clock = new VirtualClock();
      const files = new PowerFiles();
      const spool = await open(files, { clock });
      await (await spool.append([record({ id: `kept-${failing}` })])).durable();
      let armed = true;
      files.interfere = (operation) => {
        if (!armed || operation.name !== failing) return undefined;
        armed = false;
        throw systemError("EIO", operation.path);
      };
      await spool.seal("manual");
      await clock.advance(1_000);
      while (!spool.isSettled) await new Promise((resolve) => setImmediate(resolve));
      const ids = await Promise.all(spool.shelf.packs.map((pack) => idsIn(spool, pack)));
      expect([failing, ...ids.flat()]).toEqual([failing, `kept-${failing}`]);
      await spool.close();
      const again = await open(files.afterKill());
      expect(again.shelf.packs).toHaveLength(1);
      await again.close();
    }
  });

  it("a file that cannot be made uses up no number", async () => {
    const files = new PowerFiles();
    const spool = await open(files);
    let armed = true;
    files.interfere = (operation) => {
      if (!armed || operation.name !== "open" || !operation.path.endsWith(".begun")) return undefined;
      armed = false;
      throw systemError("EMFILE", operation.path);
    };
    await (await spool.append([record()])).durable();
    await spool.seal("manual");
    expect(spool.shelf.packs.map(({ sequence }) => sequence)).toEqual([0n]);
    await spool.close();
  });

  it("stopping with a disk that refuses ends, and tells the receipts", async () => {
    const files = new PowerFiles();
    const spool = await open(files);
    files.interfere = (operation) => {
      if (operation.name === "write") throw systemError("EIO", operation.path);
      return undefined;
    };
    const receipt = await spool.append([record()]);
    await spool.close();
    expect(await codes(receipt.durable())).toBe("SPOOL_UNWRITABLE");
    expect(files.names(directory).filter((name) => name.endsWith(".hfpack"))).toEqual([]);
  });

  it("the seal of a copy waits for room rather than exceed maxBytes, and nothing is admitted before it", async () => {
    const clock = new VirtualClock();
    const files = new PowerFiles();
    const maxBytes = 500_000;
    const spool = await open(files, { clock, maxBytes, maxPackBytes: 250_000 });
    await (await spool.append([record({ bytes: 200_000 })])).durable();
    await spool.seal("manual");
    await (await spool.append([record({ id: "kept", bytes: 150_000 })])).durable();
    let armed = true;
    files.interfere = (operation) => {
      if (!armed || operation.name !== "datasync") return undefined;
      armed = false;
      throw systemError("EIO", operation.path);
    };
    await spool.seal("manual");
    expect(spool.status().unmended).toBe(1);
    const waiting = spool.append([record({ bytes: 1000 })]);
    await clock.advance(1_500);
    expect(spool.status()).toMatchObject({ unmended: 1, waitingAppends: 1 });
    await spool.shelf.remove(spool.shelf.packs[0]!);
    spool.roomFreed();
    await clock.advance(400);
    await (await waiting).durable();
    expect(await idsIn(spool, spool.shelf.packs[0]!)).toEqual(["kept"]);
    expect(spool.status().peakBytes).toBeLessThanOrEqual(maxBytes);
    await spool.close();
  });
});

describe("what a start finds", () => {
  const crash = async (files: PowerFiles, ids: string[]): Promise<string> => {
    const spool = await open(files);
    await (await spool.append(ids.map((id) => record({ id, bytes: 2000 })))).durable();
    return files.names(directory).find((name) => name.endsWith(".open"))!;
  };

  it("SP-04 seals what a killed owner left, under the same id, and twice gives the same object", async () => {
    const files = new PowerFiles();
    const name = await crash(files, ["a", "b"]);
    const left = files.content(join(directory, name)).slice();
    const first = await open(files.afterKill());
    const [pack] = first.shelf.packs;
    expect(first.status()).toMatchObject({ salvagedOnStart: 1, lastError: null, movedAside: 0 });
    expect(await idsIn(first, pack!)).toEqual(["a", "b"]);
    const parsed = parseName(name)!;
    expect(pack).toMatchObject({ writerId: parsed.writerId, sequence: parsed.sequence });
    // The same file turns up again, as after a restored backup, and is sealed to the same bytes.
    const other = new PowerFiles();
    await other.makeDirectory(directory);
    other.put(join(directory, name), left);
    const second = await open(other);
    expect(second.shelf.packs[0]).toEqual(pack);
    await first.close();
    await second.close();
  });

  it("SP-04 cuts at a torn end, and copies around a damaged middle without destroying it", async () => {
    const files = new PowerFiles();
    const spool = await open(files);
    for (const id of ["a", "b", "c"]) await (await spool.append([record({ id, bytes: 3000 })])).durable();
    const name = files.names(directory).find((each) => each.endsWith(".open"))!;
    const whole = files.content(join(directory, name)).slice();
    const cases = [
      { what: "torn", bytes: whole.slice(0, whole.byteLength - 100), ids: ["a", "b"], aside: 0 },
      {
        what: "garbage at the end",
        bytes: Buffer.concat([whole, Buffer.alloc(30, 1)]),
        ids: ["a", "b", "c"],
        aside: 0,
      },
      {
        what: "a flipped byte",
        bytes: whole.map((byte, at) => (at === whole.byteLength - 4000 ? byte ^ 1 : byte)),
        ids: ["a"],
        aside: 1,
      },
    ];
    for (const { what, bytes, ids, aside } of cases) {
      const next = new PowerFiles();
      await next.makeDirectory(directory);
      next.put(join(directory, name), bytes);
      const salvaged = await open(next);
      const found = (await Promise.all(salvaged.shelf.packs.map((pack) => idsIn(salvaged, pack)))).flat();
      expect([what, ...found]).toEqual([what, ...ids]);
      expect(salvaged.status().movedAside).toBe(aside);
      expect(next.names(directory).filter((each) => each.endsWith(".quarantined"))).toHaveLength(aside);
      await salvaged.close();
    }
  });

  it("SP-07 deletes only empty open files and files without any receipt, and publishes their numbers as void", async () => {
    const files = new PowerFiles();
    const name = await crash(files, ["kept"]);
    const { writerId } = parseName(name)!;
    const id = (n: number): string => `0191f0a0-0000-7000-8000-00000000000${n}`;
    const put = (sequence: number, ending: string, bytes: Uint8Array): void =>
      files.put(join(directory, `${writerId}.${String(sequence).padStart(16, "0")}-${id(sequence)}.${ending}`), bytes);
    put(1, "open", new Uint8Array());
    put(2, "open", new Uint8Array(64).fill(3));
    put(3, "begun", files.content(join(directory, name)).slice(0, 500));
    const spool = await open(files.afterKill());
    expect(spool.shelf.voids.map(({ sequence }) => sequence).sort()).toEqual([1n, 2n, 3n]);
    expect(spool.shelf.packs.map(({ sequence }) => sequence)).toEqual([0n]);
    const left = files.names(directory).filter((each) => !each.endsWith(".json"));
    expect(left.filter((each) => each.endsWith(".quarantined"))).toEqual([expect.stringContaining(id(2))]);
    expect(spool.status()).toMatchObject({ movedAside: 1 });
    expect(spool.status().lastError).toContain(id(2));
    await spool.append([record()]);
    await spool.seal("manual");
    expect(spool.shelf.packs.at(-1)?.sequence).toBe(4n);
    await spool.close();
  });

  it("a foreign or unreadable thing under any name never stops the start", async () => {
    const files = new PowerFiles();
    const name = await crash(files, ["kept"]);
    files.put(join(directory, "holdfast-spool.json"), new TextEncoder().encode("{"));
    files.put(join(directory, "something-else"), new Uint8Array(10));
    files.put(join(directory, `${name}.quarantined`), new Uint8Array(10));
    const spool = await open(files.afterKill());
    expect(spool.status().lastError).toMatch(/new writer id/);
    expect(await idsIn(spool, spool.shelf.packs[0]!)).toEqual(["kept"]);
    expect(spool.shelf.packs[0]?.writerId).not.toBe(spool.status().writerId);
    await spool.close();
  });

  it("refuses a directory of another catalog, by name", async () => {
    const files = new PowerFiles();
    await (await open(files)).close();
    const other = { ...settings.schema, name: "other" };
    await expect(open(files, { schema: other })).rejects.toThrow(/SPOOL_UNSUITABLE.*"notes".*"other"/);
  });
});
