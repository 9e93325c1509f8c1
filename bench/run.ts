// `npm run bench -- NAME [--quick] [--dir DIR] [--store STORE]`: prints a human table and, last, one line of JSON.
import { parseArgs } from "node:util";
import type { Benchmark } from "./benchmark.js";
import { deadlineOverhead } from "./deadline-overhead/index.js";
import { deadlines } from "./deadlines/index.js";
import { lease } from "./lease/index.js";
import { slice } from "./slice.js";
import { upload } from "./upload/index.js";

const benchmarks: Readonly<Record<string, Benchmark>> = {
  "deadline-overhead": deadlineOverhead,
  deadlines,
  lease,
  slice,
  upload,
};

async function main(): Promise<void> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: { quick: { type: "boolean", default: false }, dir: { type: "string" }, store: { type: "string" } },
  });
  const [name] = positionals;
  const benchmark = name === undefined ? undefined : benchmarks[name];
  if (benchmark === undefined || positionals.length !== 1) {
    throw new Error(
      `say which benchmark: bench -- NAME [--quick] [--dir DIR] [--store s3|gcs, of upload]; there are: ${Object.keys(benchmarks).join(", ")}`,
    );
  }
  // A benchmark that knows one store only would measure another than was asked for.
  if (values.store !== undefined && benchmark !== upload) throw new Error("--store is for the benchmark upload");
  const result = await benchmark({ quick: values.quick, directory: values.dir, store: values.store });
  console.log(JSON.stringify(result));
}

try {
  await main();
} catch (error) {
  console.error(`error: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}
