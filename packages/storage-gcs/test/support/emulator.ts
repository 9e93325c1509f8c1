// The server of the live tests: the one that STORAGE_EMULATOR_HOST names, or testkit's own. No test runs against the real service.
import { randomUUID } from "node:crypto";
import { createLimiter, type ObjectStore } from "@holdfast/object-store";
import { gcsStore, type ConnectionOptions } from "@holdfast/storage-gcs";
import { gcsObjects, startFaultServer } from "@holdfast/testkit";

export type Emulator = {
  readonly url: string;
  readonly bucket: string;
  stop(): Promise<void>;
};

/** An emulator with a bucket of its own. */
export async function emulator(): Promise<Emulator> {
  const named = process.env["STORAGE_EMULATOR_HOST"];
  const bucket = `holdfast-test-${randomUUID()}`;
  if (named !== undefined) {
    const url = (/^https?:\/\//.test(named) ? named : `http://${named}`).replace(/\/+$/, "");
    const made = await fetch(`${url}/storage/v1/b?project=test`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ name: bucket }),
    });
    if (!made.ok) throw new Error(`${url} makes no bucket: ${made.status} ${await made.text()}`);
    const stop = async (): Promise<void> => {
      await fetch(`${url}/storage/v1/b/${bucket}`, { method: "DELETE" });
    };
    return { url, bucket, stop };
  }
  const server = await startFaultServer({ otherwise: gcsObjects().answer });
  return { url: server.url, bucket, stop: async () => server[Symbol.asyncDispose]() };
}

/** A store below a prefix of its own, without waits between its attempts: how long they are is no clause of the contract. */
export const storeAt = (url: string, bucket: string, o: Partial<ConnectionOptions> = {}): ObjectStore =>
  gcsStore({ apiEndpoint: url, bucket, allowHttp: true, random: () => 0, ...o, client: undefined });

/** Deletes everything that a store lists. */
export async function empty(store: ObjectStore): Promise<void> {
  const { signal } = new AbortController();
  const places = createLimiter(16);
  const deletes: Promise<void>[] = [];
  for await (const { key } of store.list({ prefix: "", signal }))
    deletes.push(places(() => store.delete(key, { signal }), signal));
  await Promise.all(deletes);
}
