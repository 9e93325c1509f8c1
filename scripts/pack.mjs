// Packs every package as it would be published, into temp/tarballs; answers name -> tarball path.
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { capture, pnpm, root } from "./shell.mjs";
import { packages } from "./workspace.mjs";

export function packAll() {
  const folder = join(root, "temp", "tarballs");
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  capture(pnpm[0], [...pnpm.slice(1), "--recursive", "--filter", "./packages/*", "pack", "--pack-destination", folder]);
  const files = readdirSync(folder);
  return new Map(
    packages().map(({ name, manifest }) => {
      const file = `${name.slice(1).replace("/", "-")}-${manifest.version}.tgz`;
      if (!files.includes(file)) throw new Error(`${name} was not packed: ${file} is missing in ${folder}`);
      return [name, join(folder, file)];
    }),
  );
}
