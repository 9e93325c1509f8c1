import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

// HOLDFAST_TEST_TARGET=dist runs the same tests against the built packages; without it they import the sources,
// so that an edit needs no build.
const target = process.env["HOLDFAST_TEST_TARGET"] === "dist" ? "dist" : "src";
const conditions = [...(target === "dist" ? [] : ["@holdfast/source"]), "node", "default"];

/** With dist as the target, what a test imports by a path inside its package's src is taken from dist as well. */
const builtFiles: Plugin = {
  name: "holdfast-built-files",
  enforce: "pre",
  resolveId(source, importer) {
    if (target !== "dist" || importer === undefined || !source.startsWith(".")) return null;
    const file = fileURLToPath(new URL(source, `file://${importer}`));
    const built = file.replace(/\/packages\/([^/]+)\/src\/(.*)\.js$/, "/packages/$1/dist/$2.js");
    return built === file ? null : built;
  },
};

interface Mutant {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
}

/** One fault in one source, which a test must notice (scripts/mutants.mjs names it). A find that is not there once fails the run. */
const mutate: Plugin = {
  name: "holdfast-mutant",
  enforce: "pre",
  transform(code, id) {
    const mutant = process.env["HOLDFAST_MUTANT"];
    if (mutant === undefined) return null;
    const { file, find, replace } = JSON.parse(mutant) as Mutant;
    if (id !== fileURLToPath(new URL(file, import.meta.url))) return null;
    const found = code.split(find).length - 1;
    if (found !== 1) throw new Error(`${file} has the text of the mutant ${found} times, not once: ${find}`);
    return { code: code.replace(find, () => replace), map: null };
  },
};

/** Ends what hangs, and nothing else: no test is judged by the speed of the machine. */
const hangMs = 600_000;

const tier = (name: string, include: string[], more: { isolate?: false } = {}) => ({
  plugins: [builtFiles, mutate],
  resolve: { conditions },
  ssr: { resolve: { conditions } },
  test: {
    name,
    include,
    testTimeout: hangMs,
    hookTimeout: hangMs,
    pool: "forks" as const,
    // The AWS SDK tells of Node 20's end on the console of every process.
    env: { AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: "true" },
    ...more,
  },
});

export default defineConfig({
  test: {
    tags: [
      {
        name: "slow",
        description: "long by nature, or a variant of what a quicker test shows: left to `npm run test:all`",
      },
    ],
    projects: [
      // Not isolated: loading every module anew for each file would be half of the tier's time.
      tier("unit", ["packages/*/test/{unit,prop}/**/*.test.ts"], { isolate: false }),
      tier("scripted", ["packages/*/test/scripted/**/*.test.ts", "tests/{sim,runner}/**/*.test.ts"]),
      // Nor this one: a fifth of its time. What a file leaves in its process, the next one meets.
      tier("live", ["packages/*/test/live/**/*.test.ts", "tests/live/**/*.test.ts"], { isolate: false }),
      tier("crash", ["tests/crash/**/*.test.ts"]),
      tier("docs", ["tests/docs/**/*.test.ts"]),
    ],
  },
});
