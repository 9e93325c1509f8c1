// Goal: who has which lease is one line each, whatever a stored holder holds. Method: each state of each lease, and the edges between them.
import { describe, expect, it } from "vitest";
import { publisherLeaseText, schemaLeaseText } from "../../src/commands/status-leases.js";

const readAtMs = 1_796_028_092_000;
const claim = { holder: "pod-7/1a2b3c4d", claimedAtMs: readAtMs - 5000, readAtMs };

describe("the schema lease on a line", () => {
  it.each([
    [{ state: "no-table", readAtMs }, "free; the table does not exist"],
    [{ state: "unclaimed", readAtMs }, "free; no claim is recorded"],
    [
      { state: "held", ...claim, expiresAtMs: readAtMs + 90_000 },
      "held by pod-7/1a2b3c4d for another 90.0 s unless released",
    ],
    [{ state: "held", ...claim, expiresAtMs: readAtMs }, "held by pod-7/1a2b3c4d for another 0 ms unless released"],
    [
      { state: "lapsed", ...claim, expiresAtMs: readAtMs - 300_000 },
      "free for 5 min; lapsed, and not released by pod-7/1a2b3c4d",
    ],
    [{ state: "released", ...claim, releasedAtMs: readAtMs - 500 }, "free for 500 ms; released by pod-7/1a2b3c4d"],
    // Released by an applier whose clock is ahead of ours.
    [{ state: "released", ...claim, releasedAtMs: readAtMs + 9000 }, "free for 0 ms; released by pod-7/1a2b3c4d"],
  ] as const)("%o", (report, text) => {
    expect(schemaLeaseText(report)).toBe(text);
  });

  it("a holder is shown whole as far as a lease writes one, and cannot move the cursor", () => {
    const holder = "x".repeat(256);
    const expiresAtMs = readAtMs + 1;
    expect(schemaLeaseText({ state: "held", ...claim, holder, expiresAtMs })).toContain(` ${holder} `);
    expect(schemaLeaseText({ state: "held", ...claim, holder: `${holder}y`, expiresAtMs })).toContain("x... for");
    expect(schemaLeaseText({ state: "held", ...claim, holder: "a\n\u001b[2Jb", expiresAtMs })).toContain(" a??[2Jb ");
  });
});

describe("the publisher lease on a line", () => {
  const nowNs = BigInt(readAtMs) * 1_000_000n;
  const head = { term: 7n, holder: "x".repeat(256), expiresAtNs: nowNs + 2_000_000_000n };
  it.each([
    [null, "never taken"],
    [head, `held by ${head.holder} for another 2.0 s unless renewed (term 7)`],
    [{ ...head, expiresAtNs: nowNs }, `free for 0 ms; last held by ${head.holder} (term 7)`],
  ])("%o", (lease, text) => {
    expect(publisherLeaseText(lease, nowNs)).toBe(text);
  });
});
