import {
  checkKey,
  ObjectStoreError,
  throwIfAborted,
  type Call,
  type Capabilities,
  type ObjectStore,
} from "@holdfast/object-store";
import { ask, unavailable, type Client } from "./client.js";
import type { ReferenceLie } from "./lies.js";
import { listObjects } from "./list.js";
import { putObject } from "./put.js";
import { getObject, headObject } from "./read.js";
import type { Wire } from "./wire.js";

const notFound = (key: string): ObjectStoreError =>
  new ObjectStoreError("NOT_FOUND", `nothing is at ${JSON.stringify(key)}`);
const never: AbortSignal = new AbortController().signal;

/**
 * The suite's own client: a store over a wire that keeps the whole contract when the wire does not, without waiting between attempts.
 * With a lie it gets one thing wrong.
 */
export function referenceStore(
  wire: Wire,
  o: { readonly storeId: string; readonly capabilities: Capabilities; readonly lie?: ReferenceLie },
): ObjectStore {
  const client: Client = { wire, lie: o.lie };
  return {
    contract: 1,
    storeId: o.storeId,
    capabilities: o.capabilities,
    put: (key, body, options) => putObject(client, { key, body, o: options }, o.capabilities),
    get: (key, options) => getObject(client, key, options),
    async head(key, call) {
      checkKey(key);
      return headObject(client, key, call);
    },
    list: (options) => listObjects(client, options),
    async delete(key, call) {
      checkKey(key);
      throwIfAborted(call.signal);
      return deleteObject(client, key, call);
    },
  };
}

async function deleteObject(client: Client, key: string, o: Call): Promise<void> {
  const { lie } = client;
  const request = { op: "delete", key } as const;
  if (lie === "a lost delete is not found") {
    const answer = await client.wire(request).catch(() => null);
    if (answer === null) throw notFound(key);
  }
  if (lie === "503 on delete is done" || lie === "403 on delete is done" || lie === "200 on delete is done") {
    const { status, error } = await client.wire(request);
    if (status === 200 ? error !== undefined : lie.startsWith(String(status))) return;
  }
  const answer = await ask(client, request, lie === "a stalled delete waits" ? { signal: never } : o);
  if (answer.status === 404 && lie === "404 on delete is an error") throw notFound(key);
  if (answer.status >= 300 && answer.status !== 404) throw unavailable(`delete was answered ${answer.status}`);
}
