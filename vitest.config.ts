import { defineConfig } from "vitest/config";

// HOLDFAST_TEST_TARGET=dist runs the same tests against the built packages; without it they import the sources,
// so that an edit needs no build.
const conditions = process.env["HOLDFAST_TEST_TARGET"] === "dist" ? [] : ["@holdfast/source"];
const resolve = { conditions: [...conditions, "module", "node", "default"] };
const ssr = { resolve: { conditions: [...conditions, "module", "node", "default"] } };

const tier = (name: string, include: string[], timeoutMs: number, fileParallelism = true) => ({
  resolve,
  ssr,
  test: { name, include, testTimeout: timeoutMs, hookTimeout: timeoutMs, fileParallelism, pool: "forks" as const },
});

export default defineConfig({
  test: {
    projects: [
      tier("unit", ["packages/*/test/{unit,prop}/**/*.test.ts"], 10_000),
      tier("scripted", ["packages/*/test/scripted/**/*.test.ts"], 30_000),
      tier("live", ["packages/*/test/live/**/*.test.ts", "tests/live/**/*.test.ts"], 120_000),
      tier("crash", ["tests/crash/**/*.test.ts"], 300_000, false),
      tier("docs", ["tests/docs/**/*.test.ts"], 120_000),
    ],
  },
});
