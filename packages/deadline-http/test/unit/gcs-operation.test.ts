// Goal: an error of another installed copy of this package is known for what it is. Method: an error of a class that this
// copy has never seen.
import { expect, it } from "vitest";
import { Operation } from "../../src/gcs/operation.js";

it.each(["DEADLINE_EXCEEDED", "CANCELED", "SCOPE_CLOSED", "LEASE_LOST", "REQUEST_FAILED"])(
  "DL-30 %s from a scope of another copy passes as it is, and what the vendor makes of it is still that",
  (code) => {
    const foreign = Object.assign(new Error(`[${code}] of the other copy`), { code, outcome: "unknown" as const });
    const operation = new Operation();
    operation.begin();
    expect(operation.translate(foreign)).toBe(foreign);
    if (code === "REQUEST_FAILED") return;
    operation.raised(foreign);
    expect(operation.translate(new Error("the vendor's"))).toBe(foreign);
  },
);
