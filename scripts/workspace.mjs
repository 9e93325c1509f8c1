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

/** Names along a cycle of dependencies of any kind between workspace packages, the first one repeated; null without one. */
export function packageCycle() {
  const arrows = new Map(
    packages().map(({ name, manifest }) => [
      name,
      Object.keys({ ...manifest.dependencies, ...manifest.peerDependencies, ...manifest.devDependencies }),
    ]),
  );
  const visit = (name, path) => {
    if (path.includes(name)) return [...path.slice(path.indexOf(name)), name];
    for (const next of arrows.get(name) ?? []) {
      const cycle = visit(next, [...path, name]);
      if (cycle !== null) return cycle;
    }
    return null;
  };
  for (const name of arrows.keys()) {
    const cycle = visit(name, []);
    if (cycle !== null) return cycle;
  }
  return null;
}
