// npm run conformance -- BACKEND [--only OS-123,…]: runs the object-store suite on a store and says what it fails. Ends with one line of JSON.
import { parseArgs } from "node:util";
import { conformanceCases, objectStoreConformance, type Runner } from "@holdfast/testkit/conformance";
import { backends } from "./backends.js";

type Outcome = { readonly name: string; readonly group: string; readonly error: unknown };

/** Collects the tests of the suite, so that they can be run one after the other here. */
function collector(): { runner: Runner; tests: { name: string; group: string; body: () => Promise<void> }[] } {
  const tests: { name: string; group: string; body: () => Promise<void> }[] = [];
  let group = "";
  const runner: Runner = {
    describe(name, body) {
      group = name;
      body();
    },
    it: (name, body) => void tests.push({ name, group, body }),
  };
  return { runner, tests };
}

const { values, positionals } = parseArgs({ options: { only: { type: "string" } }, allowPositionals: true });
const [name = ""] = positionals;
const begin = backends[name];
if (begin === undefined || positionals.length !== 1) {
  console.error(`Give one of: ${Object.keys(backends).join(", ")}. For example: npm run conformance -- fs`);
  process.exit(2);
}
const only = values.only?.split(",");

const backend = await begin();
const { knownDeviations = {} } = backend;
const { runner, tests } = collector();
objectStoreConformance(runner, () => backend.open(), { knownDeviations });
const started = process.hrtime.bigint();
const outcomes: Outcome[] = [];
try {
  for (const test of tests) {
    if (only !== undefined && !only.some((id) => test.name.startsWith(`${id} `))) continue;
    const error = await test.body().then(
      () => null,
      (thrown: unknown) => thrown ?? new Error("it failed"),
    );
    outcomes.push({ name: test.name, group: test.group, error });
    if (process.stdout.isTTY) process.stdout.write(`\r  ${outcomes.length} of ${tests.length} `);
  }
} finally {
  await backend.end?.();
}
if (process.stdout.isTTY) process.stdout.write("\r");
const seconds = Math.round(Number(process.hrtime.bigint() - started) / 1e7) / 100;

console.log(`Object-store conformance of ${name}: ${conformanceCases.length} cases\n`);
const failures = outcomes.filter(({ error }) => error !== null);
for (const group of new Set(outcomes.map((one) => one.group))) {
  const own = outcomes.filter((one) => one.group === group);
  const bad = own.filter(({ error }) => error !== null).length;
  console.log(
    `  ${group.padEnd(32)} ${String(own.length - bad).padStart(3)} passed${bad === 0 ? "" : `  ${bad} FAILED`}`,
  );
}
for (const [id, reason] of Object.entries(knownDeviations)) console.log(`\n  known deviation ${id}: ${reason}`);
for (const { name: title, error } of failures) {
  const why = error instanceof Error ? error.message.split("\n")[0] : String(error);
  console.log(`\n  FAILED ${title}\n         ${why}`);
}
console.log(`\n  ${outcomes.length - failures.length} passed, ${failures.length} failed, ${seconds} s\n`);
const deviations = Object.keys(knownDeviations);
console.log(
  JSON.stringify({
    backend: name,
    passed: outcomes.length - failures.length,
    failed: failures.length,
    deviations,
    seconds,
  }),
);
process.exitCode = failures.length === 0 ? 0 : 1;
