import {
  faultsOf,
  passing,
  planOf,
  type Plan,
  type ProxiedRequest,
  type ProxyFault,
  type ProxyRule,
} from "./faults.js";

interface Entry {
  readonly rule: ProxyRule;
  readonly faults: readonly ProxyFault[];
  left: number;
}

const worksOut = (fault: ProxyFault): boolean => Object.values(fault).some((value) => typeof value === "function");

/** The rules in force, in order, and how often each may still apply. */
export class Rules {
  #entries: Entry[] = [];

  /** Adds one at the end; the answer takes it out again. */
  add(rule: ProxyRule): () => void {
    const entry = { rule, faults: faultsOf(rule), left: rule.times ?? Infinity };
    this.#entries.push(entry);
    return () => {
      this.#entries = this.#entries.filter((e) => e !== entry);
    };
  }

  clear(): void {
    this.#entries = [];
  }

  /** Whether a rule may look at the start of a body: otherwise nothing waits for it. */
  looksAtBody(): boolean {
    return this.#entries.some((e) => e.left > 0 && (e.rule.match !== undefined || e.faults.some(worksOut)));
  }

  /** What happens to this request: the first rule that matches is used up by one. */
  decide(request: ProxiedRequest): Plan {
    const entry = this.#entries.find((e) => e.left > 0 && (e.rule.match?.(request) ?? true));
    if (entry === undefined) return passing;
    entry.left--;
    return planOf(entry.faults, request);
  }
}
