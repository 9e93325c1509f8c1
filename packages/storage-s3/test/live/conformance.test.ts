// Goal: the contract of object stores on a real S3 server, on a good wire and on a bad one. Method: every case of the conformance suite, four at a
// time, each in a bucket of its own that is emptied after it. In the cases under faults a front stands between the store and the server and
// breaks what the suite asks it to break, so that these too run on the store's own client. No deviation is known.
import { describe, it } from "vitest";
import { conformanceCases, objectStoreConformance, type Place } from "@holdfast/testkit/conformance";
import { faultyFront } from "../support/faulty-front.js";
import { bucketOfThisFile, empty, openStore, server } from "../support/rgw.js";

const faulted = new Set<string>(conformanceCases.filter((one) => one.underFaults).map(({ id }) => id));

/** Hands each of some buckets to one case at a time. */
function pool(buckets: readonly string[]): { take(): Promise<string>; giveBack(bucket: string): void } {
  const free = [...buckets];
  const waiting: ((bucket: string) => void)[] = [];
  return {
    take: async () => free.pop() ?? new Promise((resolve) => waiting.push(resolve)),
    giveBack(bucket) {
      const next = waiting.shift();
      if (next === undefined) free.push(bucket);
      else next(bucket);
    },
  };
}

describe.skipIf(server === null)("s3Store on a real server", { concurrent: true }, () => {
  const buckets = pool(Array.from({ length: 4 }, () => bucketOfThisFile()));

  /** A place in a bucket of the pool. */
  const inBucket = async (open: (bucket: string) => Promise<Place> | Place): Promise<Place> => {
    const bucket = await buckets.take();
    let place: Place;
    try {
      place = await open(bucket);
    } catch (error) {
      buckets.giveBack(bucket);
      throw error;
    }
    const dispose = async (): Promise<void> => {
      try {
        await place.dispose();
        await empty(openStore({ bucket }));
      } finally {
        buckets.giveBack(bucket);
      }
    };
    return { ...place, dispose };
  };

  const directly = (bucket: string): Place => ({
    store: openStore({ bucket }),
    other: openStore({ bucket }),
    dispose: () => Promise.resolve(),
  });

  const behindFront = async (bucket: string): Promise<Place> => {
    const front = await faultyFront(server?.endpoint ?? "", server?.credentials.secretAccessKey ?? "");
    const other = openStore({ bucket });
    // Without waits between its attempts: how long they are is no clause of the contract.
    const store = openStore({ bucket, endpoint: front.url, storeId: other.storeId, random: () => 0 });
    return { store, other, faults: front.faults, dispose: () => front.close() };
  };

  // A case opens its place as soon as it begins; on a good wire nothing stands before the server.
  let open: (bucket: string) => Place | Promise<Place> = directly;
  const runner = {
    describe,
    it: (name: string, body: () => Promise<void>) =>
      it(name, () => {
        open = faulted.has(name.split(" ")[0] ?? "") ? behindFront : directly;
        return body();
      }),
  };
  // The patience ends what hangs.
  objectStoreConformance(runner, () => inBucket(open), { patienceMs: 300_000 });
});
