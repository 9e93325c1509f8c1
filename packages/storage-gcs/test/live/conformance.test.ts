// Goal: the contract of object stores on a server that speaks the JSON API, on a good wire and on a bad one, for uploads in one request and for
// those through sessions, with both majors of the vendor's package. Method: every case of the conformance suite, each below a prefix of its
// own. In the cases under faults a front stands between the store and the server and breaks what the suite asks it to break, so that these
// too run on the store's own client. No deviation is known.
import { randomUUID } from "node:crypto";
import type { ObjectStore } from "@holdfast/object-store";
import type { ResumableOptions } from "@holdfast/storage-gcs";
import { afterAll, beforeAll, describe, it } from "vitest";
import { conformanceCases, objectStoreConformance, type Place } from "@holdfast/testkit/conformance";
import { emulator, empty, type Emulator } from "../support/emulator.js";
import { faultyFront } from "../support/faulty-front.js";
import { storeOn } from "../support/scripted-gcs.js";
import { vendors, type Vendor } from "../support/vendors.js";

const faulted = new Set<string>(conformanceCases.filter((one) => one.underFaults).map(({ id }) => id));

const [seven, eight] = vendors as readonly [Vendor, Vendor];
const sessions = { resumable: { thresholdBytes: 0, chunkBytes: 256 * 1024 } };

interface Way {
  readonly vendor: Vendor;
  readonly o: { readonly resumable?: ResumableOptions };
}

function suite({ vendor, o }: Way): void {
  let server: Emulator;
  beforeAll(async () => void (server = await emulator()));
  afterAll(() => server.stop());

  const place = async (underFaults: boolean): Promise<Place> => {
    const keyPrefix = `${randomUUID()}/`;
    const front = underFaults ? await faultyFront(server.url) : null;
    const [other, store] = [server.url, front?.url ?? server.url].map((url) =>
      storeOn(vendor, { url }, { ...o, bucket: server.bucket, keyPrefix }),
    ) as [ObjectStore, ObjectStore];
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
      it.skipIf(vendor.Storage === null)(name, () => {
        underFaults = faulted.has(name.split(" ")[0] ?? "");
        return body();
      }),
  };
  // The patience ends what hangs.
  objectStoreConformance(runner, () => place(underFaults), { patienceMs: 300_000 });
}

const title = "gcsStore on an emulator, uploads $how, $vendor.name";
describe.each([{ how: "in one request", vendor: seven, o: {} }])(title, { concurrent: true }, suite);
describe.each([
  { how: "through sessions", vendor: seven, o: sessions },
  { how: "in one request", vendor: eight, o: {} },
])(title, { concurrent: true, tags: ["slow"] }, suite);
