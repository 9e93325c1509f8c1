/** How many of our recent claims are remembered. */
export const ownClaimsKept = 16;

/**
 * The lease ids of our recent claim INSERTs that may have been sent, confirmed or not. A refusal that comes only from these is our own late
 * row: it is waited out and never counted as a rival. Each id stands once, so that the renewals of one lease (all the same id)
 * cannot push an earlier claim out.
 */
export class OwnClaims {
  readonly #ids = new Set<string>();

  /** Notes a claim about to be sent; the answer takes it back, for a claim that provably was not. */
  note(leaseId: string): () => void {
    const known = this.#ids.delete(leaseId);
    this.#ids.add(leaseId);
    for (const oldest of this.#ids) {
      if (this.#ids.size <= ownClaimsKept) break;
      this.#ids.delete(oldest);
    }
    return () => {
      if (!known) this.#ids.delete(leaseId);
    };
  }

  /** True when there is at least one id and all are ours. */
  areAll(leaseIds: readonly string[]): boolean {
    return leaseIds.length > 0 && leaseIds.every((id) => this.#ids.has(id));
  }
}
