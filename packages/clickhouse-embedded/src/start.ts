import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { canceled, EmbeddedHandle, type EmbeddedClickHouse } from "./handle.js";
import { checkOptions, type EmbeddedOptions } from "./options.js";
import { spawnChild } from "./spawn-child.js";

/**
 * Starts a ClickHouse server in a process of its own, on a data directory that no other server has open, and resolves when it answers.
 * The process ends with this one, however this one ends. One directory belongs to one process at a time. A `dataDir` whose server was
 * killed opens again with all that was acknowledged; a temporary directory is removed, with its data, when its server ends or is killed.
 *
 * Errors (EmbeddedError): DIRECTORY_IN_USE, DIRECTORY_UNWRITABLE, PORT_IN_USE, ENGINE_UNSUPPORTED, ENGINE_FAILED, CONFIG_INVALID, CANCELED.
 */
export async function startEmbeddedClickHouse(o: EmbeddedOptions = {}): Promise<EmbeddedClickHouse> {
  const checked = checkOptions(o);
  if (o.signal?.aborted === true) throw canceled(o.signal);
  const temporary = o.dataDir === undefined;
  const dataDir = resolve(o.dataDir ?? join(tmpdir(), `holdfast-clickhouse-${randomUUID()}`));
  const child = spawnChild({ ...checked, temporaryDirectory: temporary ? dataDir : null });
  const handle = new EmbeddedHandle(child, { dataDir, temporary });
  try {
    await handle.start({ type: "start", dataDir, ...checked }, o.signal);
    return handle;
  } catch (error) {
    // Why the start failed is what the caller must know, also where what could not be made cannot be removed (ENOTDIR).
    await handle.stop().catch(() => undefined);
    throw error;
  }
}
