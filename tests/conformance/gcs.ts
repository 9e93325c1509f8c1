// GCS: on the emulator that STORAGE_EMULATOR_HOST names, or on testkit's own. Never on the real service: it costs, and asks for credentials.
import { randomUUID } from "node:crypto";
import { emulator, empty, storeAt } from "../../packages/storage-gcs/test/support/emulator.js";
import type { Backend } from "./backends.js";

/** One bucket of a name of its own; each case has a prefix of its own in it, with two stores on it. */
export async function gcs(): Promise<Backend> {
  const { url, bucket, stop } = await emulator();
  return {
    open() {
      const keyPrefix = `${randomUUID()}/`;
      const [store, other] = [storeAt(url, bucket, { keyPrefix }), storeAt(url, bucket, { keyPrefix })];
      return Promise.resolve({ store, other, dispose: () => empty(store) });
    },
    end: stop,
  };
}
