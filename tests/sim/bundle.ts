import { mkdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "vite";

/** A fault in one source of the product, by exact text; each text stands in it exactly once. */
export interface SourceChange {
  /** From the repository's root. */
  readonly file: string;
  readonly edits: readonly { readonly find: string; readonly replace: string }[];
}

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Changes the source as it is loaded: nothing that is shipped has a switch for it. */
function mutate({ file, edits }: SourceChange): Plugin {
  const path = root + file;
  return {
    name: "holdfast-sim-mutant",
    enforce: "pre",
    transform(code, id) {
      if (id !== path) return null;
      let changed = code;
      for (const { find, replace } of edits) {
        const found = changed.split(find).length - 1;
        if (found !== 1) throw new Error(`${file} has the text of the mutant ${found} times, not once: ${find}`);
        changed = changed.replace(find, () => replace);
      }
      return { code: changed, map: null };
    },
  };
}

/** Puts a worker and all it imports of ours into one file, which loads and runs faster than sources behind a loader. */
export async function bundle(entry: string, name: string, change: SourceChange | null = null): Promise<string> {
  const outDir = `${root}temp/sim/${name}`;
  mkdirSync(outDir, { recursive: true });
  await build({
    root,
    configFile: false,
    logLevel: "error",
    plugins: change === null ? [] : [mutate(change)],
    ssr: { noExternal: true, external: ["@clickhouse/client"], resolve: { conditions: ["@holdfast/source"] } },
    resolve: { conditions: ["@holdfast/source"] },
    build: {
      ssr: `${root}tests/sim/${entry}`,
      outDir,
      emptyOutDir: true,
      minify: false,
      target: "node20",
      rolldownOptions: { output: { entryFileNames: "worker.mjs" } },
    },
  });
  return `${outDir}/worker.mjs`;
}
