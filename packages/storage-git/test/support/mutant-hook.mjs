// A writer in a process of its own gets the mutant, too (scripts/mutants.mjs): vitest puts it into the test's process only.
import { register } from "node:module";
import { pathToFileURL } from "node:url";

const mutant = process.env.HOLDFAST_MUTANT;
if (mutant !== undefined) {
  const root = new URL("../../../../", import.meta.url);
  const { file, find, replace } = JSON.parse(mutant);
  const hook = `
    export async function load(url, context, nextLoad) {
      const loaded = await nextLoad(url, context);
      if (url.split("?")[0] !== ${JSON.stringify(new URL(file, root).href)} || loaded.source == null) return loaded;
      const text = Buffer.from(loaded.source).toString();
      if (text.split(${JSON.stringify(find)}).length !== 2) throw new Error("the text of the mutant is not there once");
      return { ...loaded, source: text.replace(${JSON.stringify(find)}, () => ${JSON.stringify(replace)}) };
    }`;
  register(`data:text/javascript,${encodeURIComponent(hook)}`, pathToFileURL("/"));
}
