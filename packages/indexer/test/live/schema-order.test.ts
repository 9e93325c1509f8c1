// Goal: whatever is installed or changed, is so under the schema lease, and the publisher lease of an install is taken inside it. Method: a
// front before the engine for each publisher, whose log is what that process said, in its order.
import { memoryStore } from "@holdfast/object-store";
import { defineCaptureSchema } from "@holdfast/pack-format";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { SleepClock } from "../support/clocks.js";
import type { Front } from "../support/front.js";
import { Gate } from "../support/gate.js";
import { Lab } from "../support/lab.js";
import { probes } from "../support/packs.js";

/** 4 starts each: 100 in all with HOLDFAST_LONG=1, as `npm run test:long` does. */
const rounds = process.env["HOLDFAST_LONG"] === undefined ? 1 : 25;

let lab: Lab;
beforeAll(async () => {
  lab = await Lab.start();
});
afterEach(() => lab.settle());
afterAll(() => lab[Symbol.asyncDispose]());

/** The statements that matter here, by what they are. */
const kinds: readonly (readonly [string, RegExp])[] = [
  ["schema lease table", /^CREATE TABLE IF NOT EXISTS \S*holdfast_schema_lease/],
  ["schema lease", /^INSERT INTO \S*holdfast_schema_lease/],
  ["publisher lease table", /^CREATE TABLE IF NOT EXISTS \S*holdfast_publisher_lease/],
  ["publisher lease", /^INSERT INTO \S*holdfast_publisher_lease/],
  ["DDL", /^(?:CREATE TABLE IF NOT EXISTS|ALTER TABLE) \S*probes_/],
];

const said = (log: readonly { readonly statement: string }[]): string[] =>
  log.flatMap(({ statement }) => kinds.filter(([, form]) => form.test(statement)).map(([kind]) => kind));

/** Runs of one kind, each once. */
const steps = (list: readonly string[]): string[] => list.filter((kind, i) => kind !== list[i - 1]);

it("SL-16 of four concurrent first starts one applies: table, schema lease, publisher lease, DDL; who does not get the lease applies nothing", async () => {
  for (let round = 0; round < rounds; round += 1) {
    const clock = await lab.schemaClock();
    const database = await lab.database();
    const fronts = await Promise.all([1, 2, 3, 4].map(() => lab.front()));
    const publishers = fronts.map(({ url }) =>
      lab.publisher({ schema: probes, store: memoryStore(), database, url, clock }),
    );
    await Promise.all(publishers.map(({ indexer }) => indexer.ensureSchema()));
    const logs = fronts.map(({ log }) => said(log));
    const appliers = logs.filter((log) => log.includes("DDL"));
    expect(appliers).toHaveLength(1);
    const [applier] = appliers as [string[]];
    expect(applier.filter((kind) => kind === "DDL").length).toBeGreaterThan(1);
    // A claim that came too late may stand before the one that held; the last of each is the release.
    expect(steps(applier)).toEqual([
      "schema lease table",
      "schema lease",
      "publisher lease table",
      "publisher lease",
      "DDL",
      "publisher lease",
      "schema lease",
    ]);
    // The others have at most a claim that lost.
    const others = logs.filter((log) => log !== applier).map((log) => steps(log).join(", "));
    const allowed = ["", "schema lease table", "schema lease table, schema lease"];
    expect(others.filter((log) => !allowed.includes(log))).toEqual([]);
    await lab.settle();
  }
});

it("SL-16 a catalog that gets another field is changed under the schema lease, by one of two", async () => {
  const database = await lab.database();
  await lab.install({ schema: probes, store: memoryStore(), database });
  const wider = defineCaptureSchema({
    ...probes,
    version: 2,
    fields: { ...probes.fields, unit: "String" },
    orderBy: ["model", "layer"],
  });
  const clock = await lab.schemaClock();
  const fronts = await Promise.all([1, 2].map(() => lab.front()));
  const publishers = fronts.map(({ url }) =>
    lab.publisher({ schema: wider, store: memoryStore(), database, url, clock }),
  );
  await Promise.all(publishers.map(({ indexer }) => indexer.ensureSchema()));
  const appliers = fronts.map(({ log }) => said(log)).filter((log) => log.includes("DDL"));
  expect(appliers).toHaveLength(1);
  expect(steps(appliers[0]!)).toEqual(["schema lease table", "schema lease", "DDL", "schema lease"]);
});

/** The claims of the schema lease, without releases: when each was made, and until when it stands. */
const claimsIn = ({ log }: Front) =>
  log.flatMap(({ statement, settings }) =>
    /^INSERT INTO \S*holdfast_schema_lease/.test(statement) && settings.get("param_released") === "0"
      ? [{ atMs: Number(settings.get("param_acquired_ms")), untilMs: Number(settings.get("param_expires_ms")) }]
      : [],
  );

const leaseRead = /^SELECT [^]*holdfast_schema_lease`? FINAL/;
/** The last statement of a look at the catalog. */
const lookEnds = /^SELECT \(SELECT count\(\)/;

// Red, with four claims, when the catalog is looked at only under the lease, and when it is looked at before the lease is read.
it("SL-16 starts that wait while one installs claim nothing: its claim is the only one, however many they are", async () => {
  const database = await lab.database();
  const one = async () => {
    const front = await lab.front();
    // The waits are all the time that passes, so no lease grows old on a slow machine.
    const clock = new SleepClock();
    const { indexer } = lab.publisher({ schema: probes, store: memoryStore(), database, url: front.url, clock });
    return { front, ensureSchema: () => indexer.ensureSchema() };
  };
  const installer = await one();
  const waiters = [await one(), await one(), await one()];

  const beforeItsStamp = new Gate();
  installer.front.hook({
    match: /^INSERT INTO \S*probes_schema_stamp/,
    before: async () => {
      await beforeItsStamp.pass();
      return undefined;
    },
  });
  const installed = installer.ensureSchema();
  await beforeItsStamp.reached;

  // Each has seen the lease held and the catalog incomplete, and then the installer ends: the lease is free when it asks again.
  let looked = 0;
  const hasLooked = async (): Promise<undefined> => {
    looked += 1;
    if (looked === waiters.length) beforeItsStamp.open();
    await installed;
  };
  for (const { front } of waiters) {
    front.hook({
      match: lookEnds,
      after: () =>
        front.log.some(({ statement }) => leaseRead.test(statement)) ? hasLooked() : Promise.resolve(undefined),
    });
  }
  await Promise.all(waiters.map((each) => each.ensureSchema()));
  await installed;
  expect(claimsIn(installer.front)).toHaveLength(1);
  expect(waiters.flatMap(({ front }) => claimsIn(front))).toEqual([]);
  expect(waiters.flatMap(({ front }) => said(front.log)).filter((kind) => kind !== "schema lease table")).toEqual([]);
});

it("SL-16 an installer that was killed is waited for until its lease ends, and then another installs", async () => {
  const database = await lab.database();
  const [killed, front] = [await lab.front(), await lab.front()];
  const clocks = [new SleepClock(), new SleepClock()] as const;
  const options = { schema: probes, store: memoryStore(), database };
  const unanswered = new Gate();
  killed.hook({
    match: /^CREATE TABLE IF NOT EXISTS \S*holdfast_publisher_lease/,
    before: async () => {
      await unanswered.pass();
      return "stall";
    },
  });
  const ending = lab.publisher({ ...options, url: killed.url, clock: clocks[0] }).indexer.ensureSchema();
  ending.catch(() => undefined); // its client is closed at the end
  await unanswered.reached;

  const { indexer } = lab.publisher({ ...options, url: front.url, clock: clocks[1] });
  await indexer.ensureSchema();
  const [first] = claimsIn(killed);
  const [second, ...more] = claimsIn(front);
  expect(second?.atMs).toBeGreaterThan(first?.untilMs ?? Infinity);
  expect(more).toEqual([]);
  unanswered.open();
});
