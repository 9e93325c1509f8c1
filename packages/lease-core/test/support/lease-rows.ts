/** A row of the lease table; times in wall ms. */
export interface LeaseRow {
  readonly term: number;
  readonly leaseId: string;
  readonly holder: string;
  readonly acquired: number;
  readonly expires: number;
}

/** The lease that the rows show as live at an instant: alone at the newest term, and before its least expiry. */
export function liveAt(rows: readonly LeaseRow[], at: number): string | null {
  const stamped = rows.filter(({ acquired }) => acquired <= at);
  const term = Math.max(0, ...stamped.map((row) => row.term));
  const head = stamped.filter((row) => row.term === term);
  const [first] = head;
  if (first === undefined || head.some(({ leaseId }) => leaseId !== first.leaseId)) return null;
  return at < Math.min(...head.map(({ expires }) => expires)) ? first.leaseId : null;
}
