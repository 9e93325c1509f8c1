// npm run crash -- --kills N [--seed S] [--keep]: kills services N times and says what was lost or doubled. Ends with one line of JSON.
import { parseArgs } from "node:util";
import { runCampaign, type CrashResult } from "./campaign.js";

function whole(name: string, text: string): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= 1) return value;
  throw new Error(`--${name} is ${JSON.stringify(text)}; it must be a whole number, 1 or more`);
}

function table(result: CrashResult): string {
  const rows = Object.entries(result.boundaries).sort(([a], [b]) => (a < b ? -1 : 1));
  const width = Math.max(...rows.map(([boundary]) => boundary.length));
  return [
    ...rows.map(([boundary, count]) => `  ${boundary.padEnd(width)}  ${count}`),
    "",
    `  kills         ${result.kills}`,
    `  acknowledged  ${result.acknowledged} records (${Math.round(result.acknowledged / result.kills)} per kill)`,
    `  lost          ${result.lost.length}`,
    `  duplicated    ${result.duplicated.length}`,
    `  not ours      ${result.alien.length}`,
    `  not reached   ${result.missed.length === 0 ? 0 : result.missed.join(", ")}`,
    `  seconds       ${result.seconds}`,
  ].join("\n");
}

const { values } = parseArgs({
  options: {
    keep: { type: "boolean", default: false },
    kills: { type: "string", default: "60" },
    seed: { type: "string", default: "1" },
  },
});
const kills = whole("kills", values.kills);
const seed = whole("seed", values.seed);
console.log(`Killing capture services ${kills} times (seed ${seed}).`);
const result = await runCampaign({
  kills,
  seed,
  keep: values.keep,
  onKill: (boundary, done) => {
    if (process.stdout.isTTY) process.stdout.write(`\r  ${done} of ${kills}  ${boundary.padEnd(40)}`);
  },
});
if (process.stdout.isTTY) process.stdout.write("\n");
console.log(table(result));
for (const what of ["lost", "duplicated", "alien"] as const) {
  for (const id of result[what].slice(0, 20)) console.log(`  ${what}: ${id}`);
}
const { lost, duplicated, alien, acknowledged, missed } = result;
console.log(
  JSON.stringify({
    kills: result.kills,
    acknowledged,
    lost: lost.length,
    duplicated: duplicated.length,
    alien: alien.length,
    missed: missed.length,
    seed,
    seconds: result.seconds,
  }),
);
// A campaign that killed or acknowledged too little shows nothing.
const isWhole = missed.length === 0 && result.kills >= kills && acknowledged > 0;
process.exitCode = isWhole && lost.length + duplicated.length + alien.length === 0 ? 0 : 1;
