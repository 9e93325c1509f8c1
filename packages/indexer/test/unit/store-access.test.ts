// Goal: no object-store call can hold up renewals or a pass for ever. Method: a keeper that only runs its stretch, a store
// that never answers, and a virtual clock.
import { describe, expect, it } from "vitest";
import { systemClock } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import type { LeaseKeeper, Stretch } from "@holdfast/lease-core";
import { memoryStore } from "@holdfast/object-store";
import { storeAccess, underLease } from "../../src/store-access.js";
import { interposed } from "../support/gate.js";

const keeper = { exclusive: (fn: (stretch: Stretch) => unknown) => fn({} as Stretch) } as unknown as LeaseKeeper;

describe("object-store calls of a pass", () => {
  it("CT-01 are refused under the lease lock, and work beside it", async () => {
    const access = storeAccess({ store: memoryStore(), clock: systemClock, timeoutMs: 1000 });
    const calls: (() => Promise<unknown>)[] = [
      () => access.head("k"),
      () => access.source("k", 10).read(0, 5),
      () => access.page({ prefix: "v1/", startAfter: "v1/", limit: 1 }),
    ];
    for (const call of calls) {
      const inside = underLease(keeper, () => Promise.resolve().then(call));
      await expect(inside).rejects.toMatchObject({ code: "STORE_UNDER_LEASE" });
    }
    expect(await access.head("k")).toBeNull();
    expect(await access.page({ prefix: "v1/", startAfter: "v1/", limit: 1 })).toEqual([]);
  });

  it("end at their bound when the store never answers, and with CANCELED at the caller's signal", async () => {
    const clock = new VirtualClock();
    const never = interposed(memoryStore(), { head: () => new Promise<void>(() => undefined) });
    const access = storeAccess({ store: never, clock, timeoutMs: 5000 });
    const late = expect(access.head("k")).rejects.toMatchObject({
      code: "DEADLINE_EXCEEDED",
      message: expect.stringContaining("limits.storeTimeoutMs = 5000") as string,
    });
    await clock.advance(5000);
    await late;
    const controller = new AbortController();
    const canceled = expect(access.head("k", controller.signal)).rejects.toMatchObject({ code: "CANCELED" });
    controller.abort();
    await canceled;
    await expect(access.head("k", AbortSignal.abort())).rejects.toMatchObject({ code: "CANCELED" });
    expect(clock.pending).toBe(0);
  });
});
