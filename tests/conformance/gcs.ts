// GCS: on the emulator that STORAGE_EMULATOR_HOST names, or on testkit's own. Never on the real service: it costs, and asks for credentials.
import { randomUUID } from "node:crypto";
import { gcsStore } from "@holdfast/storage-gcs";
import { gcsObjects, startFaultServer } from "@holdfast/testkit";
import type { Backend } from "./backends.js";

interface Server {
  readonly apiEndpoint: string;
  readonly bucket: string;
  stop(): Promise<void>;
}

async function openServer(): Promise<Server> {
  const named = process.env["STORAGE_EMULATOR_HOST"];
  const bucket = `holdfast-conformance-${randomUUID().slice(0, 8)}`;
  if (named === undefined) {
    const server = await startFaultServer({ otherwise: gcsObjects().answer });
    return { apiEndpoint: server.url, bucket, stop: async () => server[Symbol.asyncDispose]() };
  }
  const apiEndpoint = (/^https?:\/\//.test(named) ? named : `http://${named}`).replace(/\/+$/, "");
  const headers = { "content-type": "application/json" };
  const made = await fetch(`${apiEndpoint}/storage/v1/b?project=test`, {
    method: "POST",
    headers,
    body: JSON.stringify({ name: bucket }),
  });
  if (!made.ok) throw new Error(`${apiEndpoint} makes no bucket: ${made.status} ${await made.text()}`);
  const stop = async (): Promise<void> => {
    await fetch(`${apiEndpoint}/storage/v1/b/${bucket}`, { method: "DELETE" });
  };
  return { apiEndpoint, bucket, stop };
}

/** One bucket of a name of its own; each case has a prefix of its own in it, with two stores on it. */
export async function gcs(): Promise<Backend> {
  const { apiEndpoint, bucket, stop } = await openServer();
  return {
    open() {
      const keyPrefix = `${randomUUID()}/`;
      const open = () => gcsStore({ apiEndpoint, bucket, keyPrefix, allowHttp: true });
      const [store, other] = [open(), open()];
      const dispose = async (): Promise<void> => {
        const signal = AbortSignal.timeout(60_000);
        for await (const { key } of store.list({ prefix: "", signal })) await store.delete(key, { signal });
      };
      return Promise.resolve({ store, other, dispose });
    },
    end: stop,
  };
}
