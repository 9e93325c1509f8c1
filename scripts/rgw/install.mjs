// Ceph's daemons from Debian's own archive: about 28 s and 200 MB, once per machine.
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { delimiter, join } from "node:path";

const packages = ["ceph-mon", "ceph-osd", "radosgw", "ceph-common"];
const programs = ["ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph", "monmaptool"];

const isThere = (program) =>
  (process.env.PATH ?? "").split(delimiter).some((folder) => existsSync(join(folder, program)));

/** Installs what is missing; where that cannot be done, an error that says what to do. Idempotent. */
export function install() {
  const missing = programs.filter((program) => !isThere(program));
  if (missing.length === 0) return;
  const by = `apt-get install --no-install-recommends ${packages.join(" ")}`;
  if (!existsSync("/etc/debian_version") || process.getuid?.() !== 0) {
    throw new Error(
      `${missing.join(", ")} not found, and this is not Debian as root, so nothing was installed. ` +
        `Install Ceph's gateway (on Debian: ${by}), or set HOLDFAST_S3_URL to a server of your own.`,
    );
  }
  console.error(`rgw: installing ${packages.join(", ")} (about half a minute, once)`);
  apt("update");
  apt("install", "-y", "--no-install-recommends", ...packages);
}

function apt(...args) {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const done = spawnSync("apt-get", ["-qq", ...args], { env, encoding: "utf8" });
  if (done.status !== 0) throw new Error(`apt-get ${args.join(" ")} failed:\n${done.stdout}${done.stderr}`);
}
