// How large a package is for who bundles it: its entry and all that it imports, minified and compressed with gzip.
import { gzipSync } from "node:zlib";
import { build } from "vite";

/** Bytes of `entry` (a file of a dist folder), bundled, minified, gzip. Node's own modules stay outside. */
export async function bundledBytes(entry) {
  const { output } = await build({
    logLevel: "silent",
    configFile: false,
    build: { write: false, minify: true, target: "node20", ssr: entry, rolldownOptions: { external: /^node:/ } },
  });
  return output.reduce((sum, { code }) => sum + gzipSync(code ?? "").length, 0);
}
