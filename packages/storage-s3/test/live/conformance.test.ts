// Goal: the contract of object stores on a real S3 server, on a good wire and on a bad one. Method: every case of the conformance suite, in a
// bucket of this file that is emptied after each. In the cases under faults a front stands between the store and the server and breaks what
// the suite asks it to break, so that these too run on the store's own client. No deviation is known.
import { describe, it } from "vitest";
import { conformanceCases, objectStoreConformance, type Place } from "@holdfast/testkit/conformance";
import { faultyFront } from "../support/faulty-front.js";
import { bucketOfThisFile, empty, openStore, server } from "../support/rgw.js";

const faulted = new Set<string>(conformanceCases.filter((one) => one.underFaults).map(({ id }) => id));

describe.skipIf(server === null)("s3Store on a real server", () => {
  const bucket = bucketOfThisFile();

  const directly = (): Place => {
    const store = openStore({ bucket });
    return { store, other: openStore({ bucket }), dispose: () => empty(store) };
  };

  const behindFront = async (): Promise<Place> => {
    const front = await faultyFront(server?.endpoint ?? "", server?.credentials.secretAccessKey ?? "");
    const other = openStore({ bucket });
    return {
      // Without waits between its attempts: how long they are is no clause of the contract.
      store: openStore({ bucket, endpoint: front.url, storeId: other.storeId, random: () => 0 }),
      other,
      faults: front.faults,
      async dispose() {
        await front.close();
        await empty(other);
      },
    };
  };

  // The cases run one after the other; on a good wire nothing stands before the server.
  let open: () => Place | Promise<Place> = directly;
  const runner = {
    describe,
    it: (name: string, body: () => Promise<void>) =>
      it(name, () => {
        open = faulted.has(name.split(" ")[0] ?? "") ? behindFront : directly;
        return body();
      }),
  };
  objectStoreConformance(runner, async () => open());
});
