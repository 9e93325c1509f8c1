import type { Clock } from "@holdfast/deadline-http";
import { v7 } from "uuid";

/**
 * UUIDv7s whose time is the clock's wall time. Without `random` the bits come from the system's own generator; with it, all
 * from `random`, so that a simulation repeats itself.
 */
export function createIds(clock: Clock, random?: () => number): () => string {
  if (random === undefined) return () => v7({ msecs: Math.floor(clock.wallMs()) });
  return () =>
    v7({
      msecs: Math.floor(clock.wallMs()),
      random: Uint8Array.from({ length: 16 }, () => Math.floor(random() * 256)),
      seq: Math.floor(random() * 0x1_0000_0000),
    });
}
