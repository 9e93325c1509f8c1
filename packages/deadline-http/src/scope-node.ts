import type { Clock, Instant } from "./clock.js";
import { CanceledError, LeaseLostError, ScopeClosedError, type Bound, type Outcome } from "./errors.js";

/**
 * Something that waits under a scope (a request, an unread body, a joined piece of detached work) and can be ended.
 * @internal
 */
export interface Waiting {
  /** No byte of it (of its attempt that runs) has reached a connected socket. */
  unsent(): boolean;
  /** Ends it; the error is made with the outcome that the waiting one knows. */
  end(error: (outcome: Outcome) => Error): void;
  /** Ends it because this bound ran out. */
  expire(bound: Bound, note?: string): void;
}

/**
 * What a scope is made of.
 * @internal
 */
export interface ScopeRule {
  readonly clock: Clock;
  readonly name: string;
  /** The value in messages; null: what was left when the request began. */
  readonly ms: number | null;
  readonly knobs: Readonly<Record<string, number>>;
  /** Set by withDeadline: its timers are short, so that a suspended machine notices the deadline on waking. */
  readonly lease: boolean;
  readonly deadline: () => Instant | "gone";
  readonly hook: (() => Promise<void>) | null;
  readonly signal: AbortSignal | null;
}

/**
 * One scope. Plain public fields and no methods: two copies of the package may meet in one process, and each works on
 * the other's nodes. The sets are made when first used; most scopes are entered and left with one request.
 * @internal
 */
export class ScopeNode {
  closed = false;
  timedOut: Bound | null = null;
  hookRunning: Promise<void> | null = null;
  children: Set<ScopeNode> | null = null;
  waiting: Set<Waiting> | null = null;
  /** The `within` that runs in this scope: it is left when the scope around it is. */
  run: Waiting | null = null;

  constructor(
    readonly parent: ScopeNode | null,
    readonly rule: ScopeRule,
  ) {}
}

/**
 * The scope's deadline as it is now. An answer that is no number (of a lease that is not there, say) is `gone`: NaN is
 * smaller than nothing, and would bind nothing.
 * @internal
 */
export function deadlineOf(node: ScopeNode): Instant | "gone" {
  const due: unknown = node.rule.deadline();
  return typeof due === "number" && !Number.isNaN(due) ? (due as Instant) : "gone";
}

/** While a lease binds, the clock is looked at this often: after a suspend a longer timer would be late by its length. */
const leaseStepMs = 200;

/**
 * How long a timer for a deadline may be under this scope.
 * @internal
 */
export function timerStepMs(scope: ScopeNode | null): number {
  for (let node = scope; node !== null; node = node.parent) if (node.rule.lease) return leaseStepMs;
  return Infinity;
}

/**
 * Every waiting thing under the scope, nested scopes included; a copy, since ending one takes it out.
 * @internal
 */
export function waitingUnder(node: ScopeNode): readonly Waiting[] {
  if (!node.children) return node.waiting ? [...node.waiting] : [];
  return [...(node.waiting ?? []), ...[...node.children].flatMap(waitingUnder)];
}

/** What ends with the scope: all that waits under it, and each `within` nested in it. */
function endingWith(node: ScopeNode): readonly Waiting[] {
  return node.children ? [...waitingUnder(node), ...runsUnder(node)] : waitingUnder(node);
}

function runsUnder(node: ScopeNode): readonly Waiting[] {
  return [...(node.children ?? [])].flatMap((child) => [...(child.run ? [child.run] : []), ...runsUnder(child)]);
}

/**
 * Marks the scope as left and ends what still runs in it or in scopes nested in it.
 * @internal
 */
export function closeScope(node: ScopeNode): void {
  node.closed = true;
  node.parent?.children?.delete(node);
  for (const one of endingWith(node)) one.end((outcome) => new ScopeClosedError(node.rule.name, { outcome }));
}

/**
 * The lease of the scope is gone: what has not been sent is not sent any more.
 * @internal
 */
export function loseLease(node: ScopeNode): void {
  for (const one of waitingUnder(node)) {
    if (one.unsent()) one.end((outcome) => new LeaseLostError(node.rule.name, { outcome }));
  }
}

/**
 * The deadline of the scope has come: nothing in it may wait longer.
 * @internal
 */
export function expireScope(node: ScopeNode, bound: Bound, note: string | undefined): void {
  for (const one of endingWith(node)) one.expire(bound, note);
}

/**
 * The signal of the scope was aborted.
 * @internal
 */
export function cancelScope(node: ScopeNode): void {
  for (const one of endingWith(node)) {
    one.end((outcome) => new CanceledError({ outcome, cause: node.rule.signal?.reason }));
  }
}
