import type { SourceChange } from "../bundle.js";

/** A fault in the product that the simulator must notice, and by which checker. On runs without faults it behaves like the product. */
export interface Mutant extends SourceChange {
  /** The fault, as a sentence without its full stop. */
  readonly name: string;
  readonly checker: string;
}

const source = (file: string): string => `packages/lease-core/src/${file}.ts`;
const one = (name: string, checker: string, file: string, find: string, replace: string): Mutant => ({
  name,
  checker,
  file: source(file),
  edits: [{ find, replace }],
});

const hold = `holdMs: ttlMs - clockSkewMs - deadlineMarginMs,`;

export const mutants: readonly Mutant[] = [
  // The fence.
  one(
    "the newest lease of a contested head is let in",
    "AdmittedUnderHeadOnly",
    "testing/lease-rows",
    `head.leases.length > 1 || `,
    ``,
  ),
  // The deadline.
  one("no skew term in the deadline", "HeldPastDeadline", "config", hold, `holdMs: ttlMs - deadlineMarginMs,`),
  one("no 100 ms margin", "HeldPastDeadline", "config", hold, `holdMs: ttlMs - clockSkewMs,`),
  one(
    "the deadline is counted from the reply",
    "HeldPastDeadline",
    "coordinator",
    `return { result: "held", lease };`,
    `return { result: "held", lease: { ...lease, deadline: instantAfter(clock.now(), this.#o.config.holdMs) } };`,
  ),
  one(
    "a job that asks is answered without a look at the clock",
    "HeldPastDeadline",
    "keeper-core",
    `const { phase } = this.feed();\n    return phase.s === "held" && phase.lease.leaseId !== this.leaving ? phase.lease : null;`,
    `const { phase } = this.#state;\n    return phase.s === "held" && phase.lease.leaseId !== this.leaving ? phase.lease : null;`,
  ),
  one(
    "status answers without a look at the clock",
    "HeldPastDeadline",
    "keeper",
    `const state = core.feed();`,
    `const state = core.state;`,
  ),
  one(
    "nothing is done at the deadline, only when something else wakes the keeper",
    "LossSignalled",
    "keeper-loop",
    `until.push(now + longestTimerMs, phase.lease.deadline, `,
    `until.push(now + longestTimerMs, `,
  ),
  one(
    "a timer may be as long as the lease",
    "LossSignalled",
    "keeper-loop",
    `until.push(now + longestTimerMs, phase.lease.deadline, `,
    `until.push(phase.lease.deadline, `,
  ),
  one(
    "a stretch goes on under a lease that is over",
    "RequestUnderLostLease",
    "stretch",
    `state.phase.lease.deadline : "gone";`,
    `state.phase.lease.deadline : instantAfter(core.o.clock.now(), 60_000);\n        function instantAfter(at: number, ms: number): never { return (at + ms) as never; }`,
  ),
  // Claims.
  one(
    "no read-back",
    "SoleGrantPerTerm",
    "coordinator",
    `if (claimants.length === 1 && claimants[0]?.leaseId === lease.leaseId) {`,
    `if (claimants.length >= 0) {`,
  ),
  one(
    "a lease that stands beside another at the head is renewed",
    "ClaimFromHead",
    "coordinator",
    `const mine = head.leases.length === 1 && head.leases[0]?.leaseId === leaseId;`,
    `const mine = head.leases.some((one) => one.leaseId === leaseId);`,
  ),
  one(
    "a contested head is free when the first of its leases has expired",
    "ClaimFromHead",
    "coordinator",
    `(expiresAtNs > latest ? expiresAtNs : latest), 0n);`,
    `(latest === 0n || expiresAtNs < latest ? expiresAtNs : latest), 0n);`,
  ),
  one(
    "a lost lease is claimed again under its id",
    "FreshLeaseId",
    "coordinator",
    `const leaseId = held?.leaseId ?? randomUuid(this.#o.random);`,
    `const self = this as { id?: string };\n    const drawn = held === null ? randomUuid(this.#o.random) : "";\n    const leaseId = held?.leaseId ?? (self.id ??= drawn);`,
  ),
  one(
    "a claim without a lease has the whole request timeout",
    "BoundsOfLeaseStatements",
    "config",
    `claimBoundMs: Math.max(1, Math.min(requestTimeoutMs, Math.floor(ttlMs / 3))),`,
    `claimBoundMs: requestTimeoutMs,`,
  ),
  one(
    "a claim is not bound by the deadline of the lease that it would take",
    "BoundsOfLeaseStatements",
    "coordinator",
    `const runOwn: Run = (statement) => this.#untilOwnDeadline(lease, () => run(statement));`,
    `const runOwn: Run = run;`,
  ),
  one(
    "a renewal runs under the caller's scope",
    "BoundsOfLeaseStatements",
    "keeper-core",
    `const result = await detached(() => this.renew());`,
    `const result = await this.renew();`,
  ),
  one(
    "the hook is off",
    "SlowCatalogKeepsLease",
    "stretch",
    `return core.renewWhenDue(leaseId);`,
    `return Promise.resolve();`,
  ),
  {
    name: "a renewal that a stretch leaves due starts at the next tick",
    checker: "SlowCatalogKeepsLease",
    file: source("keeper-loop"),
    edits: [
      { find: `  #running = false;\n  #acting`, replace: `  #running = false;\n  #notBefore = 0;\n  #acting` },
      {
        find: `if (this.#acting !== null || this.#due() === null) return;`,
        replace: `if (this.#acting !== null || this.#due() === null || this.#core.o.clock.now() < this.#notBefore) return;`,
      },
      {
        find: `const ticket = this.#core.lock.request();\n    await ticket.ready;`,
        replace: `const asked = this.#core.o.clock.now();\n    const ticket = this.#core.lock.request();\n    await ticket.ready;\n    const { clock, config } = this.#core.o;\n    if (clock.now() - asked > 1) this.#notBefore = clock.now() + config.tickMs;`,
      },
      {
        find: `if (this.#running && due !== null) await`,
        replace: `if (this.#running && due !== null && clock.now() >= this.#notBefore) await`,
      },
      {
        find: `...(acting ? [] : [phase.renewAt]));`,
        replace: `...(acting ? [] : [Math.max(phase.renewAt, this.#notBefore)]));`,
      },
    ],
  },
  one(
    "a renewal that finds its lease over becomes a first claim",
    "QuarantineOutlastsItsRow",
    "keeper-core",
    `if (phase.s === "quarantined" || phase.s === "failed") {`,
    `if (phase.s === "failed") {`,
  ),
  // Quarantine.
  one(
    "no quarantine but a tick when a lease is dropped",
    "QuarantineOutlastsItsRow",
    "keeper-step",
    `until: instantAfter(now, rules.ttlMs),\n    then: rules.reacquire`,
    `until: instantAfter(now, rules.tickMs),\n    then: rules.reacquire`,
  ),
  one(
    "a quarantine of half a TTL",
    "QuarantineOutlastsItsRow",
    "keeper-step",
    `until: instantAfter(now, rules.ttlMs),\n    then: rules.reacquire`,
    `until: instantAfter(now, rules.ttlMs / 2),\n    then: rules.reacquire`,
  ),
  one(
    "no quarantine after a first claim of unknown outcome",
    "QuarantineOutlastsItsRow",
    "keeper-step",
    `{ s: "quarantined", until: instantAfter(now, rules.ttlMs), then: seek`,
    `{ s: "quarantined", until: now, then: seek`,
  ),
  one(
    "a claim that was never sent quarantines",
    "KnownOutcomeNeverQuarantines",
    "keeper-step",
    `const unknown = event.insert === "unknown";`,
    `const unknown = true;`,
  ),
  one(
    "a statement of unknown outcome is followed by a tombstone",
    "TombstoneAtOwnTerm",
    "keeper-core",
    `const { timedOut, message } = factsOf(cause);`,
    `const { timedOut, message } = factsOf(cause);\n    const { phase } = this.#state;\n    if (phase.s === "held") void this.coordinator.release(phase.lease).catch(() => undefined);`,
  ),
  one(
    "a renewal goes on when its lease has been dropped",
    "FreshLeaseId",
    "keeper-core",
    `return held !== null && holds(state, held.leaseId) && clock.now() < state.phase.lease.deadline;`,
    `return state.phase.s.length + clock.now() > 0;`,
  ),
  one(
    "a quarantine does not count from the end of a renewal that was under way",
    "QuarantineOutlastsItsRow",
    "keeper-step",
    `return state.phase.s === "quarantined" && state.phase.until < until`,
    `return state.phase.s === "held" && state.phase.renewAt < until`,
  ),
  // Release.
  {
    name: "a lease is shown as held until its tombstone is answered",
    checker: "OneHolder",
    file: source("keeper"),
    edits: [
      { find: `    core.feed({ e: "released", leaseId: lease.leaseId });\n    try {`, replace: `    try {` },
      {
        find: `      core.feed({ e: "release-failed", message: \`the release could not be written: \${factsOf(error).message}\` });\n    }`,
        replace: `      core.feed({ e: "release-failed", message: String(error) });\n    }\n    core.feed({ e: "released", leaseId: lease.leaseId });`,
      },
    ],
  },
  one(
    "a release goes to the term after the held one",
    "TombstoneAtOwnTerm",
    "coordinator",
    `term: held.term, leaseId: held.leaseId`,
    `term: held.term + 1n, leaseId: held.leaseId`,
  ),
  {
    name: "a release does not wait for the jobs under the lease",
    checker: "ReleasedAdmitsNothing",
    file: source("keeper"),
    edits: [
      { find: `await this.#jobs.ended(core.o.clock, this.config.ttlMs);`, replace: `` },
      { find: `if (this.#jobs.othersRun()) {`, replace: `if (this.#jobs.othersRun() && core.leaving === null) {` },
    ],
  },
  one(
    "a release does not wait for the stretch that runs",
    "ReleasedAdmitsNothing",
    "keeper",
    `given = await core.locked(() => this.#giveBack());`,
    `given = await this.#giveBack();`,
  ),
  // Refusals.
  one(
    "our own late claims count as a rival's",
    "NoFalseLatch",
    "own-claims",
    `return leaseIds.length > 0 && leaseIds.every`,
    `return leaseIds.length > 99 && leaseIds.every`,
  ),
  one(
    "the first refusal latches",
    "NoFalseLatch",
    "keeper-step",
    `now - refusedSince >= rules.latchAfterMs`,
    `now - refusedSince >= 0`,
  ),
  one(
    "the refusal clock runs on through a quarantine",
    "NoFalseLatch",
    "keeper-step",
    `? { s: "reacquiring", nextClaimAt: null, refusedSince: null }`,
    `? { s: "reacquiring", nextClaimAt: null, refusedSince: instantAfter(phase.until, -rules.ttlMs) }`,
  ),
  one(
    "a publisher never latches",
    "LatchesInTime",
    "keeper-step",
    `rules.reacquire === "latch" && refusedSince !== null`,
    `rules.latchAfterMs < 0 && refusedSince !== null`,
  ),
  one(
    "no random pause after a contest",
    "Progress",
    "keeper-core",
    `const waitMs = tickMs + this.o.random() * tickMs;`,
    `const waitMs = tickMs + (result.contested ? 0 : this.o.random()) * tickMs;`,
  ),
  one(
    "no pause after a refusal",
    "Pace",
    "keeper-step",
    `return stays({ ...noted, phase: { s: "reacquiring", nextClaimAt, refusedSince } });`,
    `return stays({ ...noted, phase: { s: "reacquiring", nextClaimAt: now, refusedSince } });`,
  ),
  one(
    "no pause after a claim that was not sent",
    "Pace",
    "keeper-step",
    `if (phase.s === "reacquiring") return stays({ ...counted, phase: { ...phase, nextClaimAt } });`,
    `if (phase.s === "reacquiring") return stays({ ...counted, phase: { ...phase, nextClaimAt: now } });`,
  ),
  // The count of timeouts.
  one(
    "the count of timeouts falls with any renewal",
    "StreakKept",
    "keeper-step",
    `const healthy = phase.s === "held" && now - phase.heldSince >= rules.streakClearsAfterMs;`,
    `const healthy = phase.s === "held";`,
  ),
  // The schema lease.
  one(
    "schema lease without settle",
    "TwoAppliers",
    "schema-lease",
    `await this.#clock.sleep(this.#settleMs, sleep);`,
    ``,
  ),
  one(
    "a schema claim holds however late it was answered",
    "TwoAppliers",
    "schema-lease",
    `if (this.#clock.recheck() - readAt > this.#settleMs / 2) {`,
    `if (this.#clock.recheck() - readAt > 1e9) {`,
  ),
  one(
    "the loser of a race for the schema lease holds as well",
    "TwoAppliers",
    "schema-lease",
    `const later = row !== null && row.acquiredMs >= claim.acquiredMs;`,
    `const later = row !== null && row.acquiredMs < claim.acquiredMs;`,
  ),
  one(
    "a schema claim holds though it lapsed while its process was stopped",
    "HeldByLapsedClaim",
    "schema-lease",
    `|| claim.expiresMs < Math.floor(this.#clock.wallMs())) return false;`,
    `) return false;`,
  ),
  one(
    "a release of the schema lease is stamped anew",
    "LateReleaseFreesNobody",
    "schema-lease",
    `{ acquiredMs: claim.acquiredMs, expiresMs: Math.floor(this.#clock.wallMs()) },`,
    `{ acquiredMs: Math.floor(this.#clock.wallMs()), expiresMs: Math.floor(this.#clock.wallMs()) },`,
  ),
  one(
    "a released schema claim is not free",
    "SchemaProgress",
    "schema-lease-row",
    `return !row.released && row.expiresMs >=`,
    `return row.expiresMs + (row.released ? 1e9 : 0) >=`,
  ),
];

/** Changes nothing that anybody can see: a run that kills it would kill everything. */
export const canaryMutant: Mutant = one(
  "nothing observable changes",
  "any",
  "config",
  `export const deadlineMarginMs = 100;`,
  `export const deadlineMarginMs = 50 + 50;`,
);
