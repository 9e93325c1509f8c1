// What a run of tests prints at its end: seconds per package and tier, minutes per tier, and every failure again by name.

/** Prints the seconds that files took, summed per package and tier: files run beside each other, so a tier takes less than its sum. */
export function printSeconds(results) {
  const tiers = results.filter(({ files }) => files.length > 0);
  const rows = new Map();
  for (const { tier, files } of tiers) {
    for (const { file, seconds } of files) {
      const [folder, name] = file.split("/");
      const row = folder === "packages" ? name : `${folder}/${name}`;
      if (!rows.has(row)) rows.set(row, new Map());
      rows.get(row).set(tier, (rows.get(row).get(tier) ?? 0) + seconds);
    }
  }
  const cell = (seconds) => (seconds === undefined ? "" : seconds.toFixed(1));
  const lines = [...rows.entries()]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([row, seconds]) => [row, ...tiers.map(({ tier }) => cell(seconds.get(tier)))]);
  printColumns([["seconds of files", ...tiers.map(({ tier }) => tier)], ...lines]);
}

/** Prints minutes and counts per row, then the sum over all as a line of its own. */
export function printTable(results) {
  const lines = results.map((r) =>
    [r.tier, r.passed, r.failed, r.skipped ?? 0, r.minutes.toFixed(2)].map((value) => String(value)),
  );
  printColumns([["tier", "passed", "failed", "not run", "minutes"], ...lines]);
  const sum = (key) => results.reduce((total, r) => total + r[key], 0);
  console.log(`\n${sum("passed")} passed, ${sum("failed")} failed`);
}

/** The first column to the left, the others to the right. */
function printColumns(lines) {
  const widths = lines[0].map((_, at) => Math.max(...lines.map((line) => line[at].length)));
  console.log("");
  for (const line of lines) {
    const [first, ...rest] = line.map((value, at) =>
      at === 0 ? value.padEnd(widths[at]) : value.padStart(widths[at]),
    );
    console.log([first, ...rest].join("  ").trimEnd());
  }
}

/** Prints each failure with the command that runs it alone. */
export function printFailures(results) {
  const failures = results.flatMap(({ failures: own, tier }) => own.map((failure) => ({ tier, ...failure })));
  if (failures.length === 0) return;
  console.log(`\n${failures.length} failed:`);
  for (const failure of failures) console.log(`\n${describeFailure(failure)}`);
}

/** The tiers' results as one, for CI. */
export function resultOf(results) {
  const sum = (key) => results.reduce((total, r) => total + r[key], 0);
  const failures = results.flatMap(({ failures: own, tier }) => own.map((one) => describeFailure({ tier, ...one })));
  return { passed: sum("passed"), failed: sum("failed"), failures, rows: results };
}

/** One text for a failure: tier, file and title, the command that runs it alone, and the beginning of its message. */
export function describeFailure({ tier, file, name, suite = false, alone = commandFor, message }) {
  const title = [tier, file, name].filter((part) => part !== "").join(": ");
  const command = file === "" ? [] : [`    alone: ${alone(file, name, suite)}`];
  return [title, ...command, ...message.split("\n").map((line) => `    ${line}`)].join("\n");
}

const literally = (text) => text.replaceAll(/[.*+?^${}()|[\]\\]/g, "\\$&");
const quoted = (text) => `'${text.replaceAll("'", `'\\''`)}'`;

/** The command that runs one test, the tests of a suite, or the file when it has no name. `npmTest` stands before the file. */
export function commandFor(file, name, suite = false, npmTest = "npm test --") {
  const needsS3 = process.env.HOLDFAST_S3_URL !== undefined && file.includes("s3");
  const title = name === "" ? "" : ` -t ${quoted(`^${literally(name)}${suite ? " " : "$"}`)}`;
  return `${needsS3 ? "node scripts/rgw.mjs run -- " : ""}${npmTest} ${file}${title}`;
}
