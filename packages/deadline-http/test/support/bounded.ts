// Calls under a bound that none of them comes to, on the virtual clock.
import { within } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { failure } from "./clickhouse.js";
import { running, throughPauses } from "./virtual-bound.js";

export const knobs = { "catalog.requestTimeoutMs": 60_000, "lease.ttlMs": 15_000 };
/** Far more than a call needs; its pauses take no time. The client is made for the clock. */
export const bounded = async (call: (clock: VirtualClock) => Promise<unknown>, ms = 3_000) => {
  const clock = new VirtualClock();
  const end = failure(() => within(ms, () => call(clock), { name: "the bound", knobs, clock }));
  return throughPauses(clock, 2, running(end));
};
