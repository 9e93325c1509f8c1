// Every root command of package.json comes through here: set up what is missing, then run.
import { build, install } from "./setup.mjs";
import { bin, root, run } from "./shell.mjs";
import { runBusy } from "./test/busy.mjs";
import { leavingNothing } from "./test/leftovers.mjs";
import { runTests } from "./test/run.mjs";

const tool = (name, ...args) => run(bin(name), args);
const script = (name, ...args) => run(process.execPath, [`${root}/scripts/${name}.mjs`, ...args]);
const source = ["--import", "tsx", "--conditions=@holdfast/source"];
const typescript = (file, ...args) => run(process.execPath, [...source, `${root}/${file}`, ...args]);

const node = (...args) => run(process.execPath, args);
/** Runs Node with a real S3 server beside it, unless one is named by HOLDFAST_S3_URL already. */
const onS3 = (...args) => run(process.execPath, [`${root}/scripts/rgw.mjs`, "run", "--", process.execPath, ...args]);
const needsS3 = (args, name) => args[0] === name && process.env.HOLDFAST_S3_URL === undefined;
/** Runs Node beside testkit's fake of Google Cloud Storage, or with the emulator that STORAGE_EMULATOR_HOST names. */
const onGcs = (...args) => script("gcs", "run", "--", process.execPath, ...args);
/** Beside what the benchmark of uploads needs; the other benchmarks start their own servers. */
const besideServerOf = (args) => {
  if (args[0] === "upload" && /(^| )--store[ =]gcs( |$)/.test(args.join(" "))) return onGcs;
  return needsS3(args, "upload") ? onS3 : node;
};

/** name -> { built: needs dist folders, run: performs the command and returns its exit code } */
const commands = {
  setup: { built: true, run: async () => 0 },
  build: { built: true, run: async () => 0 },
  demo: { built: true, run: (args) => script("demo", ...args) },
  test: { built: true, run: (args) => leavingNothing((signal) => runTests(args, { part: "quick", signal })) },
  "test:all": { built: true, run: (args) => leavingNothing((signal) => runTests(args, { part: "all", signal })) },
  "test:unit": {
    built: false,
    run: (args) => leavingNothing((signal) => runTests(args, { part: "all", tiers: ["unit"], signal })),
  },
  "test:busy": { built: true, run: (args) => leavingNothing((signal) => runBusy(args, { signal })) },
  "test:long": { built: true, run: (args) => leavingNothing(() => onS3(`${root}/scripts/long.mjs`, ...args)) },
  crash: { built: true, run: (args) => leavingNothing(() => typescript("tests/crash/run.ts", ...args)) },
  sim: { built: false, run: (args) => typescript("tests/sim/run.ts", ...args) },
  "sim:mutants": { built: false, run: (args) => typescript("tests/sim/mutants/run.ts", ...args) },
  mutants: { built: true, run: (args) => leavingNothing(() => script("mutants", ...args)) },
  conformance: {
    built: true,
    run: (args) =>
      leavingNothing(() => (needsS3(args, "s3") ? onS3 : node)(...source, `${root}/tests/conformance/run.ts`, ...args)),
  },
  // Measures what is shipped: the dist folders, not sources that a loader has rewritten.
  bench: {
    built: true,
    run: (args) => besideServerOf(args)("--import", "tsx", `${root}/bench/run.ts`, ...args),
  },
  lint: { built: true, run: () => script("lint") },
  format: { built: false, run: () => tool("prettier", "--write", ".") },
  docs: { built: true, run: () => script("docs") },
  "check:packages": { built: true, run: () => script("packages") },
  api: { built: true, run: (args) => script("api", ...args) },
};

const [name, ...args] = process.argv.slice(2);
const command = commands[name];
if (command === undefined) {
  console.error(`holdfast: no command ${JSON.stringify(name ?? "")}; there are: ${Object.keys(commands).join(", ")}`);
  process.exit(2);
}
try {
  await install();
  if (command.built) await build();
  process.exitCode = await command.run(args);
} catch (error) {
  console.error(`holdfast: ${error.message}`);
  process.exitCode = 1;
}
