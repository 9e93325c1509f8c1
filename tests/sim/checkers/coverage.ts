/** What a run exercised. Sums over seeds. */
export const coverageKeys = [
  "terms",
  "grants",
  "takeovers",
  "contestedTerms",
  "quarantines",
  "claimsLandedInQuarantine",
  "claimsLandedWhileRivalHolds",
  "suspendsWithFencedInFlight",
  "stallsPastDeadline",
  "crashes",
  "losses",
  "latches",
  "releases",
  "fencedAdmitted",
  "fencedRefused",
  "unsentClaims",
  "looksAfterDeadline",
  "schemaGrants",
  "schemaRivalClaims",
  "schemaRefused",
  "schemaLateReleases",
] as const;

export type CoverageKey = (typeof coverageKeys)[number];
export type Coverage = Record<CoverageKey, number>;

export function emptyCoverage(): Coverage {
  return Object.fromEntries(coverageKeys.map((key) => [key, 0])) as Coverage;
}

export function addCoverage(sum: Coverage, one: Coverage): void {
  for (const key of coverageKeys) sum[key] += one[key];
}
