import { fileURLToPath } from "node:url";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

// HOLDFAST_TEST_TARGET=dist runs the same tests against the built packages; without it they import the sources,
// so that an edit needs no build.
const target = process.env["HOLDFAST_TEST_TARGET"] === "dist" ? "dist" : "src";
const conditions = [...(target === "dist" ? [] : ["@holdfast/source"]), "module", "node", "default"];

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

const tier = (name: string, include: string[], timeoutMs: number, fileParallelism = true) => ({
  plugins: [builtFiles],
  resolve: { conditions },
  ssr: { resolve: { conditions } },
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
