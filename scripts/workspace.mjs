// What the workspace publishes: read from the packages' own package.json files.
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { root } from "./shell.mjs";

/** Every published package: { name, folder, manifest }. */
export function packages() {
  return readdirSync(join(root, "packages"))
    .sort()
    .map((entry) => join(root, "packages", entry))
    .filter((folder) => existsSync(join(folder, "package.json")))
    .map((folder) => {
      const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
      return { name: manifest.name, folder, manifest };
    });
}
