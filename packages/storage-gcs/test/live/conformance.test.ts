// Goal: the contract of object stores on a server that speaks the JSON API, on a good wire and on a bad one, for uploads in one request and for
// those through sessions. Method: every case of the conformance suite, each below a prefix of its own. In the cases under faults a front stands
// between the store and the server and breaks what the suite asks it to break, so that these too run on the store's own client. No deviation is known.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, it } from "vitest";
import { conformanceCases, objectStoreConformance, type Place } from "@holdfast/testkit/conformance";
import { emulator, empty, storeAt, type Emulator } from "../support/emulator.js";
import { faultyFront } from "../support/faulty-front.js";

const faulted = new Set<string>(conformanceCases.filter((one) => one.underFaults).map(({ id }) => id));

describe.each([
  ["in one request", {}],
  ["through sessions", { resumable: { thresholdBytes: 0, chunkBytes: 256 * 1024 } }],
] as const)("gcsStore on an emulator, uploads %s", { concurrent: true }, (_how, o) => {
  let server: Emulator;
  beforeAll(async () => void (server = await emulator()));
  afterAll(() => server.stop());

  const place = async (underFaults: boolean): Promise<Place> => {
    const keyPrefix = `${randomUUID()}/`;
    const front = underFaults ? await faultyFront(server.url) : null;
    const other = storeAt(server.url, server.bucket, { ...o, keyPrefix });
    const store = storeAt(front?.url ?? server.url, server.bucket, { ...o, keyPrefix, storeId: other.storeId });
    const dispose = async (): Promise<void> => {
      await front?.close();
      await empty(other);
    };
    return { store, other, ...(front === null ? {} : { faults: front.faults }), dispose };
  };

  // A case opens its place as soon as it begins; on a good wire nothing stands before the server.
  let underFaults = false;
  const runner = {
    describe,
    it: (name: string, body: () => Promise<void>) =>
      it(name, () => {
        underFaults = faulted.has(name.split(" ")[0] ?? "");
        return body();
      }),
  };
  // The patience ends what hangs.
  objectStoreConformance(runner, () => place(underFaults), { patienceMs: 300_000 });
});
