import { createRequire } from "node:module";
import { Command, CommanderError, Option } from "commander";
import type { DemoFlags } from "./commands/demo.js";
import type { GetFlags } from "./commands/get.js";
import type { InspectFlags } from "./commands/inspect.js";
import type { SearchFlags } from "./commands/search.js";
import type { StatusFlags } from "./commands/status.js";
import { CliError, oneLine } from "./errors.js";
import type { Io } from "./io.js";
import { installedPeers, type Peers } from "./peers.js";

const { version } = createRequire(import.meta.url)("../package.json") as { version: string };

/**
 * Runs one command line (`argv` without node and script) and answers the exit code: 0, 1 after an error, which is one line
 * on `io.err`, or 130 when `io.signal` stopped it. Never throws, never ends the process.
 */
export async function runCli(argv: readonly string[], io: Io, peers: Peers = installedPeers): Promise<number> {
  try {
    await program(io, peers).parseAsync([...argv], { from: "user" });
    return 0;
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode; // it has written its own line
    if (io.signal.aborted) return 130;
    io.err.write(`error: ${oneLine(error)}\n`);
    return 1;
  }
}

// Each command is loaded when it is asked for: `--help` and `inspect` need no ClickHouse client.
function program(io: Io, peers: Peers): Command {
  const root = new Command("holdfast")
    .description("Looks after large numbers of binary records: packs in a store, a catalog in ClickHouse.")
    .version(version)
    .exitOverride()
    .configureOutput({
      writeOut: (text) => io.out.write(text),
      writeErr: (text) => io.err.write(text),
      outputError: (text, write) => write(parserLine(text)),
    });

  noPassword(root.command("demo"))
    .description("run the whole system here: capture tensors, find them, read them back, verify each")
    .option("--dir <DIR>", "keep everything in this directory (default: a temporary one, removed at the end)")
    .option("--records <N>", "how many tensors of 16 kB", "1000")
    .option("--port <N>", "port of the embedded ClickHouse (default: any free one)")
    .option("--stay", "keep the catalog up until Ctrl-C, to try the other commands on it")
    .action(async (flags: DemoFlags) => (await import("./commands/demo.js")).demo(flags, io, peers));

  connection(root.command("status"))
    .description("the catalog's snapshot, counts and packs, and who holds the publisher lease and the schema lease")
    .option("--json", "one JSON object")
    .action(async (flags: StatusFlags) => (await import("./commands/status.js")).status(flags, io));

  withStore(connection(root.command("search")))
    .description("find records by their fields")
    .option("--where <CLAUSE...>", "column=value, or >=, <=, >, <; = given twice means either")
    .option("--limit <N>", "how many records at most", "20")
    .option("--cursor <CURSOR>", "go on behind the last record of an earlier search")
    .option("--snapshot <VERSION>", "ask an older snapshot (default: the newest)")
    .option("--json", "one JSON object a line")
    .action(async (flags: SearchFlags) => (await import("./commands/search.js")).search(flags, io, peers));

  withStore(connection(root.command("get")))
    .description("write the payload of one record into a file")
    .argument("<CAPTURE_ID>")
    .requiredOption("-o, --output <FILE>", "where to write it")
    .option("--snapshot <VERSION>", "ask an older snapshot (default: the newest)")
    .action(async (captureId: string, flags: GetFlags) =>
      (await import("./commands/get.js")).get(captureId, flags, io, peers),
    );

  noPassword(withStore(root.command("inspect")))
    .description("show one pack (a file, or a key in --store) and verify all of its checksums")
    .argument("<PACK>")
    .option("--config <FILE>", "JSON file with catalog, schema and store")
    .option("--timeout <MS>", "bound of each request to the store (default: 10000)")
    .option("--records <N>", "how many records to list", "5")
    .option("--json", "one JSON object")
    .action(async (pack: string, flags: InspectFlags) =>
      (await import("./commands/inspect.js")).inspect(pack, flags, io, peers),
    );
  return root;
}

// A password on the command line can be read by every user of the machine. The flag exists only to be refused: as an
// unknown one its value would be printed by the parser.
const refusePassword = (): never => {
  throw new CliError(
    "USAGE_INVALID",
    "--password: not on the command line; set HOLDFAST_PASSWORD or use --password-file FILE",
  );
};

function noPassword(command: Command): Command {
  return command
    .addOption(new Option("--password [VALUE]").hideHelp().argParser(refusePassword))
    .addOption(new Option("--pass [VALUE]").hideHelp().argParser(refusePassword));
}

/** What the parser says, on one line, with a code, and without the value of a flag that may be a misspelt --password. */
function parserLine(text: string): string {
  const line = text
    .replace(/^error: /, "")
    .trim()
    .replace(/\s+/g, " ");
  const named = line.replace(/^(unknown option '--[^=]*)=.*'/, "$1'").replace(/^(unknown option '-[^-]).+'/, "$1'");
  return `error: [USAGE_INVALID] ${named}\n`;
}

function connection(command: Command): Command {
  return noPassword(command)
    .option("--config <FILE>", "JSON file with catalog, schema and store; flags go before it")
    .option("--catalog <URL>", "ClickHouse's HTTP address (or HOLDFAST_CATALOG)")
    .option("--user <NAME>", "ClickHouse user (default: default)")
    .option("--password-file <FILE>", "file with the password (or HOLDFAST_PASSWORD)")
    .option("--database <NAME>", "database of the catalog (default: default)")
    .option("--timeout <MS>", "bound of each request (default: 10000)")
    .option("--schema <NAME>", "tensor, or a JSON file with a capture schema (default: tensor)");
}

function withStore(command: Command): Command {
  return command
    .option("--store <STORE>", "where the packs are: fs:DIR (a bucket: store in --config)")
    .option("--store-id <ID>", "the store's id, if it is not the default one");
}
