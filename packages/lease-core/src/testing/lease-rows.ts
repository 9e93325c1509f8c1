import type { Fence, Head, HeadLease } from "../lease-table.js";

/** One row, as in the ClickHouse table. */
export interface LeaseRow {
  readonly name: string;
  readonly term: bigint;
  readonly leaseId: string;
  readonly holder: string;
  readonly acquiredAtNs: bigint;
  readonly expiresAtNs: bigint;
}

/** A UUID's place in ClickHouse's order: the second half of its text counts first. */
export function uuidRank(id: string): string {
  return id.slice(19, 23) + id.slice(24) + id.slice(0, 8) + id.slice(9, 13) + id.slice(14, 18);
}

const leaseOf = ({ leaseId, holder, expiresAtNs }: LeaseRow): HeadLease => ({ leaseId, holder, expiresAtNs });

/** The leases among rows of one name and term, newest lease id first; each expires by its least row. */
export function leasesAmong(rows: readonly LeaseRow[]): readonly HeadLease[] {
  if (rows.length < 2) return rows.map(leaseOf);
  const byId = new Map<string, HeadLease>();
  for (const row of rows) {
    const known = byId.get(row.leaseId);
    if (known === undefined || row.expiresAtNs < known.expiresAtNs) byId.set(row.leaseId, leaseOf(row));
  }
  const leases = [...byId.values()];
  return leases.length < 2 ? leases : leases.sort((a, b) => (uuidRank(a.leaseId) < uuidRank(b.leaseId) ? 1 : -1));
}

/** What the fence's predicate answers for this head: is the only lease there mine, and does it outlast the margin? */
export function fenceAdmits(head: Head, params: Readonly<Record<string, unknown>>): boolean {
  const [only] = head.leases;
  if (only === undefined || head.leases.length > 1 || only.leaseId !== params["hf_lease"]) return false;
  return only.expiresAtNs > head.nowNs + BigInt(String(params["hf_margin_ns"]));
}

interface Shelf {
  readonly terms: Map<bigint, LeaseRow[]>;
  newest: bigint;
}

/**
 * The rows of a lease table, with the meaning of its statements and at no cost in time: rows are only added, the newest term is the head.
 * For simulators that bring time, network and servers themselves.
 */
export class LeaseRows {
  readonly #names = new Map<string, Shelf>();

  add(row: LeaseRow): void {
    let shelf = this.#names.get(row.name);
    if (shelf === undefined) this.#names.set(row.name, (shelf = { terms: new Map(), newest: row.term }));
    const rows = shelf.terms.get(row.term);
    if (rows === undefined) shelf.terms.set(row.term, [row]);
    else rows.push(row);
    if (row.term > shelf.newest) shelf.newest = row.term;
  }

  /** The head by a server whose clock says `nowNs`. */
  head(name: string, nowNs: bigint): Head {
    const shelf = this.#names.get(name);
    if (shelf === undefined) return { term: 0n, leases: [], nowNs: 0n };
    return { term: shelf.newest, leases: this.term(name, shelf.newest), nowNs };
  }

  /** Whether a server whose clock says `nowNs` admits a statement with this fence. */
  admits(fence: Fence, nowNs: bigint): boolean {
    return fenceAdmits(this.head(String(fence.params["hf_name"]), nowNs), fence.params);
  }

  /** All leases at exactly this term. */
  term(name: string, term: bigint): readonly HeadLease[] {
    return leasesAmong(this.rowsAt(name, term));
  }

  /** The rows themselves. */
  rowsAt(name: string, term: bigint): readonly LeaseRow[] {
    return this.#names.get(name)?.terms.get(term) ?? [];
  }
}
