import { checkMs, instantAfter, type Clock, type Instant } from "./clock.js";
import { CanceledError, type Bound } from "./errors.js";
import { frames, systemClock } from "./registry.js";
import { deadlineOf, ScopeNode, waitingUnder, type ScopeRule } from "./scope-node.js";
import { failed, ScopeRun } from "./scope-run.js";
import { Wait } from "./wait.js";

/** What a scope tells the function that runs in it. */
export interface Scope {
  /** The bound by which a request under this scope (nested scopes included) ended, the newest; null: none since cleared. */
  readonly timedOut: Bound | null;
  /** Forgets it. */
  clearTimedOut(): void;
  /** Requests, unread bodies and joined detached work that wait under this scope now, nested scopes included. */
  readonly waiting: number;
}

/** Options of a scope. */
export interface ScopeOptions {
  /** How the bound is called in errors. Default: the function's name. */
  readonly name?: string | undefined;
  /** The settings behind the bound, full path -> value in ms; they stand in every timeout message. */
  readonly knobs?: Readonly<Record<string, number>> | undefined;
  /** Ends the requests of the scope with `CANCELED`. */
  readonly signal?: AbortSignal | undefined;
  /** Default: the machine's clock. */
  readonly clock?: Clock | undefined;
}

/**
 * Runs `fn` with a deadline `ms` from now on every request made in its async context through a bound client, and on
 * `fn` itself: the promise settles by the deadline whatever `fn` does. The tightest of nested deadlines binds. When it
 * is left, by return, error or timeout, the scope is closed: requests that still run in it are ended, unread bodies
 * destroyed, and a later request in it fails with `SCOPE_CLOSED`. So read bodies inside.
 *
 * `ms`: any number; 0 and less lets no request out; Infinity bounds nothing; NaN throws `CONFIG_INVALID`.
 * Errors: `DEADLINE_EXCEEDED` (outcome of the request that ran; `unknown` when `fn` waited for something else),
 * `CANCELED`, and what `fn` throws. It cannot stop what `fn` does besides requests.
 */
export function within<T>(ms: number, fn: (scope: Scope) => Promise<T>, o: ScopeOptions = {}): Promise<T> {
  try {
    checkMs("within(ms)", ms);
    const clock = o.clock ?? systemClock;
    const due = instantAfter(clock.now(), ms);
    const node = openScope("within", o, clock, { deadline: () => due, ms, lease: false, hook: null });
    return new ScopeRun<T>(node, due).run(fn, new ScopeView(node));
  } catch (error) {
    return failed(error);
  }
}

/**
 * As {@link within}, for a deadline that moves: an Instant of `o.clock`, or a function that is asked again before every
 * attempt and may answer `gone`, which refuses the request with `LEASE_LOST`; so does an answer that is no number. Bounds
 * requests only: the promise settles when `fn` does.
 *
 * `beforeRequest` runs once per request, before the deadline is read, so what it extends already counts; of nested
 * scopes only the innermost that has one runs it; parallel requests share one run; requests that it makes itself do not
 * run it again. What it throws reaches the caller of the request, which is then not sent.
 */
export function withDeadline<T>(
  deadline: Instant | (() => Instant | "gone"),
  fn: (scope: Scope) => Promise<T>,
  o: ScopeOptions & { readonly beforeRequest?: (() => Promise<void>) | undefined } = {},
): Promise<T> {
  try {
    if (typeof deadline === "number") checkMs("withDeadline(deadline)", deadline);
    const clock = o.clock ?? systemClock;
    const node = openScope("withDeadline", o, clock, {
      deadline: typeof deadline === "number" ? () => deadline : deadline,
      ms: typeof deadline === "number" ? Math.max(0, Math.floor(deadline - clock.now())) : null,
      lease: true,
      hook: o.beforeRequest ?? null,
    });
    return new ScopeRun<T>(node, null).run(fn, new ScopeView(node));
  } catch (error) {
    return failed(error);
  }
}

/**
 * Whole milliseconds until the tightest deadline in force here; Infinity outside any scope; 0 when it has passed, when
 * a deadline function answers `gone`, and in a scope that was left.
 */
export function remainingMs(): number {
  let left = Infinity;
  for (let node = frames.getStore()?.scope ?? null; node !== null; node = node.parent) {
    const due = node.closed ? "gone" : deadlineOf(node);
    left = due === "gone" ? 0 : Math.min(left, Math.floor(due - node.rule.clock.now()));
    if (left <= 0) return 0;
  }
  return left;
}

/**
 * Runs `fn` outside every scope of the caller: no deadline, hook or signal of the caller touches its requests. The
 * returned promise still ends with the caller's own deadline, signal or scope, as not-sent, while `fn` goes on. That is
 * said of what the caller would have sent afterwards, not of `fn`: a write whose outcome matters is not to be awaited so.
 * `fn` always starts, and needs a bound of its own.
 */
export async function detached<T>(fn: () => Promise<T>): Promise<T> {
  const scope = frames.getStore()?.scope ?? null;
  const work = frames.run(undefined, async () => fn());
  if (!scope) return work;
  work.catch(() => undefined);
  const wait = new Wait(scope, scope.rule.clock, null, null);
  try {
    wait.enter();
    wait.arm(wait.read(), true);
    return await wait.bounded(work);
  } finally {
    wait.leave();
  }
}

type Rule = Pick<ScopeRule, "deadline" | "ms" | "lease" | "hook">;

function openScope(kind: string, o: ScopeOptions, clock: Clock, rule: Rule): ScopeNode {
  const { signal } = o;
  if (signal?.aborted) throw new CanceledError({ outcome: "not-sent", cause: signal.reason });
  const parent = frames.getStore()?.scope ?? null;
  const node = new ScopeNode(parent, {
    clock,
    name: o.name ?? kind,
    ms: rule.ms,
    knobs: o.knobs ?? {},
    lease: rule.lease,
    deadline: rule.deadline,
    hook: rule.hook,
    signal: signal ?? null,
  });
  if (parent) (parent.children ??= new Set()).add(node);
  return node;
}

class ScopeView implements Scope {
  constructor(private readonly node: ScopeNode) {}
  get timedOut(): Bound | null {
    return this.node.timedOut;
  }
  clearTimedOut(): void {
    this.node.timedOut = null;
  }
  get waiting(): number {
    return waitingUnder(this.node).length;
  }
}
