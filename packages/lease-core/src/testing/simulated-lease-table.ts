import { DeadlineExceededError, remainingMs, RequestError, type Clock, type Outcome } from "@holdfast/deadline-http";
import type { ClaimRow, Fence, Head, HeadLease, LeaseTable } from "../lease-table.js";
import { fenceAdmits, leasesAmong, type LeaseRow } from "./lease-rows.js";

/** The statements of the lease protocol, by what they do. */
export type LeaseOperation = "create" | "head" | "claim" | "term" | "tombstone";

/** What happens to one statement. Left out: it is executed and answered at once. */
export interface OperationPlan {
  /** Milliseconds until it reaches the table. */
  readonly beforeMs?: number;
  /** Milliseconds from there until its answer is back. */
  readonly afterMs?: number;
  /**
   * `answered` (default); `unanswered`: executed, no answer comes; `undelivered`: neither; `not-sent`: fails with proof that nothing
   * left; `refused`: refused before execution; `limited`: the server's time limit ends it, with its row written; `limited-empty`: so
   * too, without the row; `dropped`: answered with success, but no row is there; `broken`: the connection breaks after execution.
   */
  readonly fate?:
    | "answered"
    | "unanswered"
    | "undelivered"
    | "not-sent"
    | "refused"
    | "limited"
    | "limited-empty"
    | "dropped"
    | "broken";
}

/** One statement as the table saw it. */
export interface OperationRecord {
  readonly operation: LeaseOperation;
  readonly name: string;
  /** `clock.now()` when it was handed over. */
  readonly sentAt: number;
  readonly leaseId?: string;
  readonly term?: bigint;
}

export interface SimulatedLeaseTableOptions {
  readonly clock: Clock;
  /** Decides the fate of each statement; called once for each, in order. */
  readonly plan?: (operation: OperationRecord) => OperationPlan | undefined;
  /** Bound of a single statement besides the deadlines in force. Default 60000. */
  readonly requestTimeoutMs?: number;
  /** The server's clock in nanoseconds. Default: a fixed date plus what passed on `clock`, plus `skewMs`. */
  readonly nowNs?: () => bigint;
  /** publishTimeoutMs + clockSkewMs, for the fence. Default 5000. */
  readonly fenceMarginMs?: number;
}

/**
 * The lease table in memory, with the semantics of the ClickHouse one: rows are only added, its own clock stamps them, the newest term is
 * the head, a lease expires by its least row. For tests and simulations: time comes from the given clock, and each statement can be late,
 * lost, cut off by a limit, or answered without effect. Statements end by the deadline scopes in force, as real ones do.
 */
export class SimulatedLeaseTable implements LeaseTable {
  readonly rows: LeaseRow[] = [];
  readonly log: OperationRecord[] = [];
  /** Added to the server's clock. */
  skewMs = 0;
  plan: NonNullable<SimulatedLeaseTableOptions["plan"]>;
  readonly #o: SimulatedLeaseTableOptions;
  readonly #startedAt: number;

  constructor(o: SimulatedLeaseTableOptions) {
    this.#o = o;
    this.#startedAt = o.clock.now();
    this.plan = o.plan ?? (() => undefined);
  }

  /** The server's clock. */
  nowNs(): bigint {
    if (this.#o.nowNs !== undefined) return this.#o.nowNs();
    const passedMs = this.#o.clock.now() - this.#startedAt + this.skewMs;
    return 1_750_000_000_000_000_000n + BigInt(Math.round(passedMs * 1e6));
  }

  async create(): Promise<void> {
    await this.#run({ operation: "create", name: "" }, () => undefined);
  }

  readHead(name: string): Promise<Head> {
    return this.#run({ operation: "head", name }, () => this.head(name));
  }

  readTerm(name: string, term: bigint): Promise<readonly HeadLease[]> {
    return this.#run({ operation: "term", name, term }, () => this.#leases(name, term));
  }

  async insertClaim(claim: ClaimRow): Promise<void> {
    const { name, term, leaseId, holder } = claim;
    await this.#run({ operation: "claim", name, term, leaseId }, () => {
      const acquiredAtNs = this.nowNs();
      this.rows.push({
        name,
        term,
        leaseId,
        holder,
        acquiredAtNs,
        expiresAtNs: acquiredAtNs + BigInt(claim.ttlMs) * 1_000_000n,
      });
    });
  }

  async insertTombstone(lease: { name: string; term: bigint; leaseId: string; holder: string }): Promise<void> {
    await this.#run({ operation: "tombstone", name: lease.name, term: lease.term, leaseId: lease.leaseId }, () => {
      const now = this.nowNs();
      this.rows.push({ ...lease, acquiredAtNs: now, expiresAtNs: now });
    });
  }

  fence(lease: { name: string; term: bigint; leaseId: string }): Fence {
    const margin = BigInt(this.#o.fenceMarginMs ?? 5000) * 1_000_000n;
    const params = { hf_name: lease.name, hf_lease: lease.leaseId, hf_margin_ns: margin.toString() };
    return { leaseId: lease.leaseId, term: lease.term, predicate: "(simulated)", params, settings: {} };
  }

  /** Whether the table would admit a statement with this fence now. */
  admits(fence: Fence): boolean {
    return fenceAdmits(this.head(String(fence.params["hf_name"])), fence.params);
  }

  /** The head as the table has it now, at no cost in time. */
  head(name: string): Head {
    const terms = this.rows.filter((row) => row.name === name).map((row) => row.term);
    if (terms.length === 0) return { term: 0n, leases: [], nowNs: 0n };
    const term = terms.reduce((newest, one) => (one > newest ? one : newest));
    return { term, leases: this.#leases(name, term), nowNs: this.nowNs() };
  }

  #leases(name: string, term: bigint): readonly HeadLease[] {
    return leasesAmong(this.rows.filter((row) => row.name === name && row.term === term));
  }

  /** Passes a statement through time and its fate. */
  async #run<T>(what: Omit<OperationRecord, "sentAt">, execute: () => T): Promise<T> {
    const { clock } = this.#o;
    const leftMs = Math.floor(Math.min(remainingMs(), this.#o.requestTimeoutMs ?? 60_000));
    if (leftMs < 1) throw this.#ranOut(0, "not-sent");
    const record: OperationRecord = { ...what, sentAt: clock.now() };
    this.log.push(record);
    const { beforeMs = 0, afterMs = 0, fate = "answered" } = this.plan(record) ?? {};
    if (fate === "not-sent") throw new RequestError("connection refused", { outcome: "not-sent" });
    const executes = fate === "answered" || fate === "unanswered" || fate === "limited" || fate === "broken";
    const silent = fate === "unanswered" || fate === "undelivered";
    return new Promise<T>((resolve, reject) => {
      const bound = clock.setTimer(leftMs, () => reject(this.#ranOut(leftMs, "unknown")));
      const arrive = (): void => {
        // The statement takes effect whether or not anyone still waits for it.
        const result = executes ? execute() : undefined;
        if (silent) return;
        const reply = (): void => {
          bound.cancel();
          const error = failure(fate);
          if (error === null) resolve(result as T);
          else reject(error);
        };
        if (afterMs > 0) clock.setTimer(afterMs, reply);
        else reply();
      };
      if (beforeMs > 0) clock.setTimer(beforeMs, arrive);
      else arrive();
    });
  }

  #ranOut(ms: number, outcome: Outcome): DeadlineExceededError {
    return new DeadlineExceededError({ name: "bound of a simulated statement", ms, knobs: {} }, { outcome });
  }
}

function failure(fate: OperationPlan["fate"]): RequestError | null {
  if (fate === "refused") return new RequestError("refused before execution", { outcome: "refused", serverCode: 286 });
  if (fate === "broken") return new RequestError("the connection was reset", { outcome: "unknown" });
  if (fate !== "limited" && fate !== "limited-empty") return null;
  return new RequestError("TIMEOUT_EXCEEDED", { outcome: "unknown", timedOut: true, serverCode: 159, httpStatus: 408 });
}
