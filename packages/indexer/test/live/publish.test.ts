// Goal: of what publishers send, exactly what the protocol admits becomes visible, wherever another publisher comes in
// between. Method: the real engine behind a front that lets a test act before or after any statement.
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { systemClock } from "@holdfast/deadline-http";
import type { LeaseOptions } from "@holdfast/lease-core";
import { memoryStore } from "@holdfast/object-store";
import { tableReferences } from "@holdfast/indexer/catalog";
import { catalogClient } from "../../src/catalog-client.js";
import { codeOf } from "../../src/catalog-error.js";
import { systemRandom } from "../../src/prng.js";
import { allocateVersion } from "../../src/publish/allocate.js";
import { MovableClock } from "../support/clocks.js";
import type { Front, Verdict } from "../support/front.js";
import { Lab, putPack, uuid } from "../support/lab.js";
import { probeRecords, probes } from "../support/packs.js";

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.start();
});
afterEach(() => lab.settle());
afterAll(() => lab[Symbol.asyncDispose]());

/** What each step of a commit sends. */
const statements = {
  "guard read": /max\(hf_inventoried\)/,
  "floor read": /AS floor/,
  "version claim": /INSERT INTO .*probes_version_claim/,
  "claim read-back": /SELECT DISTINCT toString\(claim_id\)/,
  descriptors: /INSERT INTO .*probes_record/,
  manifest: /INSERT INTO .*probes_snapshot_manifest/,
  "member count": /AS members/,
  watermark: /INSERT INTO .*probes_index_watermark/,
  "watermark read-back": /SELECT DISTINCT toString\(publish_id\)/,
  inventory: /INSERT INTO .*probes_pack_inventory/,
} as const;
type Step = keyof typeof statements;

async function catalog(o: { lease?: LeaseOptions } = {}) {
  const database = await lab.database();
  const store = memoryStore();
  const front = await lab.front();
  const leaseClock = new MovableClock();
  const options = { schema: probes, store, database, leaseClock, ...o };
  const ours = await lab.held({ ...options, url: front.url });
  const table = (name: string) => `${database}.probes_${name}`;
  const pairs = () =>
    lab.rows<{ version: string; pack: string }>(
      `SELECT toString(m.index_version) AS version, toString(m.pack_id) AS pack FROM ${table("snapshot_manifest")} AS m ` +
        `INNER JOIN ${table("index_watermark")} AS w ON m.index_version = w.index_version AND m.publish_id = w.publish_id ` +
        `ORDER BY version, pack`,
    );
  const inventory = () =>
    lab.rows<{ pack: string; version: string }>(
      `SELECT toString(pack_id) AS pack, toString(index_version) AS version FROM ${table("pack_inventory")} FINAL`,
    );
  /** Takes a statement in and never answers it; the lease of its sender runs out meanwhile. */
  const stall = () => {
    leaseClock.move(ours.keeper.config.ttlMs);
    return Promise.resolve<Verdict>("stall");
  };
  const lapse = () => lab.lapse(ours, options);
  return { database, store, front, options, ours, table, pairs, inventory, stall, lapse };
}

/** Runs an action once, before the first statement that matches. */
function once(front: Front, match: RegExp, when: "before" | "after", action: () => Promise<void>): void {
  let done = false;
  front.hook({
    match,
    [when]: async () => {
      if (done) return undefined;
      done = true;
      await action();
      return undefined;
    },
  });
}

describe("publish", () => {
  it("CT-10 the steps are sent in this order, and the first publish of an empty catalog works", async () => {
    const { front, ours, store } = await catalog();
    const from = front.log.length;
    await ours.indexer.index([await putPack(store, probes, probeRecords(0, 3))]);
    const steps = front.log.slice(from).flatMap(({ statement }) => {
      const found = Object.entries(statements).find(([, match]) => match.test(statement));
      return found === undefined ? [] : [found[0]];
    });
    expect(steps).toEqual([
      "guard read",
      "floor read",
      "version claim",
      "claim read-back",
      "descriptors",
      "manifest",
      "member count",
      "watermark",
      "watermark read-back",
      "member count",
      "inventory",
    ]);
  });

  const superseded =
    "CT-10 CT-11 superseded before its %s: visible once, at the rival's version, and the outcome has a code";
  const writeSteps: readonly Step[] = ["version claim", "descriptors", "manifest", "watermark", "inventory"];
  const supersede = async (step: Step) => {
    const { database, front, options, ours, pairs, inventory, store } = await catalog();
    const pack = await putPack(store, probes, probeRecords(0, 3));
    const rival = lab.publisher(options);
    once(front, statements[step], "before", async () => {
      await lab.supersede(options);
      await rival.keeper.acquire();
      await rival.indexer.index([pack]);
    });
    const outcome = await ours.indexer.index([pack]).then((result) => result.version, codeOf);
    const ownIsVisible = ["watermark read-back", "inventory"].includes(step);
    if (ownIsVisible) expect(outcome).toBe(1n);
    else expect(outcome).toMatch(/^(LEASE_LOST|LEASE_HELD|PUBLISH_RACE)$/);
    const visible = await pairs();
    expect(visible).toHaveLength(1);
    expect(visible[0]?.pack).toBe(pack.packId);
    expect((await inventory()).map((row) => row.pack)).toEqual([pack.packId]);
    const [watermarks] = await lab.rows<{ n: string }>(
      `SELECT toString(count()) AS n FROM ${database}.probes_index_watermark`,
    );
    expect(watermarks?.n).toBe("1");
  };
  it.each(writeSteps)(superseded, supersede);
  const readSteps = (Object.keys(statements) as Step[]).slice(1).filter((step) => !writeSteps.includes(step));
  it.each(readSteps)(superseded, { tags: ["slow"] }, supersede);

  it.each(["manifest", "watermark"] as const)(
    "CT-11 superseded before its %s by a rival that has not published yet: fenced out with LEASE_LOST, nothing is visible",
    async (step) => {
      const { database, front, options, ours, pairs, store } = await catalog();
      const pack = await putPack(store, probes, probeRecords(0, 3));
      const rival = lab.publisher(options);
      once(front, statements[step], "before", async () => {
        await lab.supersede(options);
        await rival.keeper.acquire();
      });
      await expect(ours.indexer.index([pack])).rejects.toMatchObject({ code: "LEASE_LOST" });
      expect(await pairs()).toEqual([]);
      const rows = await lab.rows(`SELECT pack_id FROM ${database}.probes_snapshot_manifest`);
      expect(rows).toHaveLength(step === "manifest" ? 0 : 1);
      expect(await rival.indexer.index([pack])).toMatchObject({ indexedPacks: 1 });
      expect(await pairs()).toHaveLength(1);
    },
  );

  it("CT-12 fenced statements are capped at publishTimeoutMs and throw; no other write is", async () => {
    const { front, ours, store } = await catalog({ lease: { ttlMs: 600_000, publishTimeoutMs: 45_500 } });
    await ours.indexer.index([await putPack(store, probes, probeRecords(0, 3))]);
    const caps = (match: RegExp) =>
      front.log
        .filter(({ statement }) => match.test(statement))
        .map(({ settings }) => [settings.get("max_execution_time"), settings.get("timeout_overflow_mode")]);
    expect(caps(statements.manifest)).toEqual([["45.5", "throw"]]);
    expect(caps(statements.watermark)).toEqual([["45.5", "throw"]]);
    expect(caps(statements.descriptors)).toEqual([[null, null]]);
  });

  it("CT-12 a publish cut by the lease deadline quarantines, and its pack is indexed once later", async () => {
    const { front, ours, pairs, store, stall, lapse } = await catalog();
    const pack = await putPack(store, probes, probeRecords(0, 3));
    front.hook({ match: statements.watermark, before: stall });
    await expect(ours.indexer.index([pack])).rejects.toMatchObject({
      code: "DEADLINE_EXCEEDED",
      outcome: "unknown",
      message: expect.stringContaining("lease deadline") as string,
    });
    expect(ours.keeper.status().state).toBe("quarantined");
    front.hook();
    await lapse();
    await ours.keeper.acquire();
    expect(await ours.indexer.index([pack])).toMatchObject({ indexedPacks: 1 });
    expect(await pairs()).toHaveLength(1);
  });

  it("CT-13 three races, then success: versions rise and one publish is visible; races without end give PUBLISH_RACE", async () => {
    const { database, front, ours, pairs, store } = await catalog();
    const pack = await putPack(store, probes, probeRecords(0, 3));
    let races = 0;
    const raceUpTo = (most: number) => {
      front.hook({
        match: statements.watermark,
        before: async () => {
          if (races >= most) return undefined;
          races += 1;
          await lab.write(
            `INSERT INTO ${database}.probes_index_watermark SELECT ` +
              `(SELECT max(version) + 1 FROM ${database}.probes_version_claim), generateUUIDv4(), 0, 0, 0`,
          );
          return undefined;
        },
      });
    };
    raceUpTo(3);
    const result = await ours.indexer.index([pack]);
    expect(result).toMatchObject({ indexedPacks: 1 });
    expect(ours.indexer.counters.publishRaces).toBe(3);
    expect(await pairs()).toEqual([{ version: result.version?.toString(), pack: pack.packId }]);
    const claims = await lab.rows<{ v: string }>(
      `SELECT toString(version) AS v FROM ${database}.probes_version_claim ORDER BY claimed_at_ns`,
    );
    expect(claims.map((claim) => Number(claim.v))).toEqual([1, 3, 5, 7]);

    const other = await putPack(store, probes, probeRecords(10, 3));
    races = 0;
    raceUpTo(Infinity);
    await expect(ours.indexer.index([other])).rejects.toMatchObject({ code: "PUBLISH_RACE" });
    expect(races).toBe(8);
    expect(await pairs()).toHaveLength(1);
    front.hook();
    expect(await ours.indexer.index([other])).toMatchObject({ indexedPacks: 1 });
  });

  it.each([
    ["nothing", "PUBLISH_CONFLICT", 1],
    ["a transport failure", "PUBLISH_CONFLICT", 0],
    ["a lease refusal", "LEASE_LOST", 0],
  ] as const)(
    "CT-14 a conflict followed by %s: visible, committed, and not published again",
    async (then, code, listed) => {
      const { database, front, ours, pairs, inventory, store, lapse } = await catalog();
      const pack = await putPack(store, probes, probeRecords(0, 3));
      const conflict = async () => {
        await lab.write(`INSERT INTO ${database}.probes_index_watermark VALUES (1, '${uuid(99)}', 0, 0, 0)`);
        return undefined;
      };
      const lose = async () => {
        await ours.keeper.whileHeld(async (held) => held.quarantine(new Error("lost meanwhile")));
        return undefined;
      };
      let counts = 0;
      front.hook(
        { match: statements.watermark, after: conflict },
        {
          match: statements.inventory,
          before: () => Promise.resolve(then === "a transport failure" ? "refuse" : "pass"),
        },
        {
          match: statements["watermark read-back"],
          after: () => (then === "a lease refusal" ? lose() : Promise.resolve("pass")),
        },
        {
          match: statements["member count"],
          before: async () => {
            counts += 1;
            return "pass";
          },
        },
      );
      const error = await ours.indexer.index([pack]).catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code, message: expect.stringContaining("must not be published again") as string });
      expect(counts).toBe(1);
      expect(await pairs()).toEqual([{ version: "1", pack: pack.packId }]);
      expect(await inventory()).toHaveLength(listed);
      front.hook();
      if (then !== "nothing") {
        await lapse();
        await ours.keeper.acquire();
      }
      expect(await ours.indexer.index([pack])).toMatchObject({ skipped: 1, indexedPacks: 0 });
      expect(await pairs()).toHaveLength(1);
      expect(await inventory()).toEqual([{ pack: pack.packId, version: "1" }]);
    },
  );

  it("CT-15 stopped between watermark and inventory: the next publisher only lists the pack, nothing is shown twice", async () => {
    const { front, options, ours, pairs, inventory, store } = await catalog();
    const pack = await putPack(store, probes, probeRecords(0, 3), { sequence: 0n });
    front.hook({ match: statements.inventory, before: () => Promise.resolve("refuse") });
    await expect(ours.indexer.index([pack])).rejects.toMatchObject({ code: "REQUEST_FAILED" });
    expect(await inventory()).toEqual([]);
    expect(await pairs()).toHaveLength(1);
    await ours.keeper.stop();
    // As if its last row had run out: it ended quarantined, and leaves that row behind.
    await lab.supersede(options);
    const next = lab.publisher(options);
    await next.keeper.acquire();
    expect(await next.indexer.reconcile()).toMatchObject({ reconciledPacks: 0, failures: [] });
    expect(next.indexer.counters).toMatchObject({ repairedInventory: 1, publishes: 0 });
    expect(await pairs()).toEqual([{ version: "1", pack: pack.packId }]);
    expect(await inventory()).toEqual([{ pack: pack.packId, version: "1" }]);
  });

  describe.each(["descriptors", "manifest", "watermark", "inventory"] as const)(
    "a write of unknown outcome: %s",
    (step) => {
      const title = "CT-16 %s: the lease is quarantined and nothing is shown twice";
      const tags = step === "manifest" ? [] : ["slow"];
      it.each(["cut"] as const)(title, (how) => endsUnknown(how));
      it.each(["limit", "stall"] as const)(title, { tags }, (how) => endsUnknown(how));

      async function endsUnknown(how: "cut" | "limit" | "stall"): Promise<void> {
        const { front, ours, pairs, store, stall, lapse } = await catalog();
        const pack = await putPack(store, probes, probeRecords(0, 3));
        front.hook({ match: statements[step], before: how === "stall" ? stall : () => Promise.resolve(how) });
        const error = await ours.indexer.index([pack]).catch((thrown: unknown) => thrown);
        expect(error).toMatchObject({ outcome: "unknown", timedOut: how !== "cut" });
        expect(ours.keeper.status().state).toBe("quarantined");
        // Cut: the statement ran, only its answer was lost.
        const visible = step === "inventory" || (step === "watermark" && how === "cut") ? 1 : 0;
        expect(await pairs()).toHaveLength(visible);
        if (how !== "cut") return;
        front.hook();
        await lapse();
        await ours.keeper.acquire();
        expect(await ours.indexer.index([pack])).toMatchObject({ skipped: visible, indexedPacks: 1 - visible });
        expect(await pairs()).toHaveLength(1);
      }
    },
  );

  it.each(["guard read", "floor read", "version claim", "claim read-back"] as const)(
    "CT-16 a failed %s does not quarantine",
    async (step) => {
      const { front, ours, store } = await catalog();
      const pack = await putPack(store, probes, probeRecords(0, 3));
      front.hook({ match: statements[step], before: () => Promise.resolve("refuse") });
      await expect(ours.indexer.index([pack])).rejects.toMatchObject({ code: "REQUEST_FAILED" });
      expect(ours.keeper.status().state).toBe("held");
      front.hook();
      expect(await ours.indexer.index([pack])).toMatchObject({ indexedPacks: 1 });
    },
  );
});

describe("versions", () => {
  const allocator = (database: string, url: string, attempts = 16) => ({
    catalog: catalogClient({
      client: lab.clientOf(url),
      requestTimeoutMs: 120_000,
      lease: { sequentialReads: false, quorum: null, publishTimeoutMs: 5000 },
    }),
    tables: tableReferences("probes", database),
    clock: systemClock,
    random: systemRandom,
    attempts,
  });

  it("CT-09 8 allocators at once get 8 different versions", async () => {
    const { database } = await catalog();
    const versions = await Promise.all(Array.from({ length: 8 }, () => allocateVersion(allocator(database, lab.url))));
    expect(new Set(versions).size).toBe(8);
    const rows = await lab.rows<{ n: string }>(`SELECT toString(count()) AS n FROM ${database}.probes_version_claim`);
    expect(Number(rows[0]?.n)).toBeGreaterThanOrEqual(8);
  });

  it("CT-09 two claims at one version are abandoned by both; the claimants go higher", async () => {
    const { database, front } = await catalog();
    let waiting: (() => void)[] = [];
    let first = true;
    front.hook({
      match: statements["claim read-back"],
      // Both first claims are written before either is read back.
      before: async () => {
        if (!first) return undefined;
        await new Promise<void>((resolve) => {
          waiting.push(resolve);
          if (waiting.length < 2) return;
          first = false;
          for (const go of waiting) go();
          waiting = [];
        });
        return undefined;
      },
    });
    const versions = await Promise.all([1, 2].map(() => allocateVersion(allocator(database, front.url))));
    expect(Math.min(...versions.map(Number))).toBeGreaterThan(1);
    expect(new Set(versions).size).toBe(2);
  });

  it("CT-09 16 contested versions give ALLOCATION_FAILED", async () => {
    const { database, front } = await catalog();
    let contested = 0;
    front.hook({
      match: statements["version claim"],
      after: async (statement) => {
        contested += 1;
        const version = /\["(\d+)"/.exec(statement)?.[1] ?? "";
        await lab.write(`INSERT INTO ${database}.probes_version_claim VALUES (${version}, generateUUIDv4(), 0)`);
        return undefined;
      },
    });
    await expect(allocateVersion(allocator(database, front.url))).rejects.toMatchObject({ code: "ALLOCATION_FAILED" });
    expect(contested).toBe(16);
  });
});
