// Goal: whatever is installed or changed, is so under the schema lease, and the publisher lease of an install is taken inside it. Method: a
// front before the engine for each publisher, whose log is what that process said, in its order.
import { memoryStore } from "@holdfast/object-store";
import { defineCaptureSchema } from "@holdfast/pack-format";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
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
    // Who found it free later, and the catalog complete, gave it back; nobody else touched anything else.
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
