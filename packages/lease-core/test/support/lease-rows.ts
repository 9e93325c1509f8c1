import type { Engine } from "./engine.js";

/** A row of the lease table; times in ms of this machine's wall clock. Rows are only ever added, so what they say of any instant can be read later. */
export interface LeaseRow {
  readonly term: number;
  readonly leaseId: string;
  readonly holder: string;
  readonly acquired: number;
  readonly expires: number;
}

/** All rows of one lease, by term. */
export function leaseRows(engine: Engine, name: string): Promise<LeaseRow[]> {
  return engine.rows<LeaseRow>(
    "SELECT toUInt32(term) AS term, toString(lease_id) AS leaseId, holder, acquired_at_ns / 1e6 - {ahead:Float64} AS acquired, " +
      "expires_at_ns / 1e6 - {ahead:Float64} AS expires FROM holdfast_publisher_lease WHERE name = {name:String} ORDER BY term, acquired",
    { name, ahead: engine.clockAheadMs },
  );
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
