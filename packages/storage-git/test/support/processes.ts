// The process list, as every user of the machine sees it.
import { readdir, readFile } from "node:fs/promises";

/** The command lines of all processes that name this text. */
export async function processesWith(text: string): Promise<string[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const read = pids.map((pid) => readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => ""));
  return (await Promise.all(read)).filter((line) => line.includes(text));
}
