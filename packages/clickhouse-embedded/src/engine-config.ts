import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { makeFolders } from "./make-folders.js";

const escapes: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&apos;",
};
const xml = (text: string): string => text.replace(/[&<>"']/g, (c) => escapes[c] ?? c);

/** Table engines that keep their data in the data directory or in memory; the others are refused by the engine (497). */
const tableEngines = (
  "MergeTree ReplacingMergeTree SummingMergeTree AggregatingMergeTree CollapsingMergeTree VersionedCollapsingMergeTree GraphiteMergeTree " +
  "CoalescingMergeTree ReplicatedMergeTree ReplicatedReplacingMergeTree ReplicatedSummingMergeTree ReplicatedAggregatingMergeTree " +
  "ReplicatedCollapsingMergeTree ReplicatedVersionedCollapsingMergeTree ReplicatedGraphiteMergeTree ReplicatedCoalescingMergeTree " +
  "Memory Log TinyLog StripeLog Null Set Join Buffer Merge GenerateRandom Dictionary EmbeddedRocksDB KeeperMap"
).split(" ");

/** The defaults of a ClickHouse server where the engine's own differ, and no long retries towards hosts. */
const profile: Readonly<Record<string, string>> = {
  implicit_select: "0",
  allow_introspection_functions: "0",
  mutations_sync: "0",
  http_max_tries: "1",
};

const grants = [
  "GRANT ALL ON *.*",
  "REVOKE SOURCES ON *.*",
  "REVOKE TABLE ENGINE ON *",
  ...tableEngines.map((name) => `GRANT TABLE ENGINE ON ${name}`),
];

const elements = (values: Readonly<Record<string, string>>): string =>
  Object.entries(values)
    .map(([name, value]) => `<${name}>${xml(value)}</${name}>`)
    .join("");

function usersXml(): string {
  const queries = grants.map((grant) => `<query>${grant}</query>`).join("\n");
  return `<clickhouse>
<profiles><default>${elements(profile)}</default></profiles>
<quotas><default></default></quotas>
<users><default><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota>
<grants>
${queries}
</grants></default></users>
</clickhouse>
`;
}

function configXml(usersPath: string, durable: boolean): string {
  const fsync = durable ? elements({ fsync_after_insert: "1", fsync_part_directory: "1" }) : "";
  return `<clickhouse>
<user_directories><users_xml><path>${xml(usersPath)}</path></users_xml></user_directories>
<access_control_improvements><table_engines_require_grant>true</table_engines_require_grant></access_control_improvements>
<remote_url_allow_hosts><host>none.invalid</host></remote_url_allow_hosts>
<merge_tree>${fsync}</merge_tree>
<display_name>holdfast-embedded</display_name>
</clickhouse>
`;
}

/** Writes the engine's configuration and returns its arguments. The directory must be writable. */
export async function engineArguments(o: { readonly configDir: string; readonly durable: boolean }): Promise<string[]> {
  await makeFolders(o.configDir);
  const users = join(o.configDir, "users.xml");
  const config = join(o.configDir, "config.xml");
  await writeFile(users, usersXml());
  await writeFile(config, configXml(users, o.durable));
  return [`--config-file=${config}`];
}
