// A world for property tests: random trees of scopes whose deadlines move or go, with requests that are faulted, aborted,
// forgotten and detached, all on the virtual clock. It judges each attempt in the moment it goes out, and keeps what is
// needed to judge the rest afterwards.
import { getEventListeners } from "node:events";
import fc from "fast-check";
import { detached, instantAfter, within, withDeadline, type Instant } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { frames } from "../../src/registry.js";
import type { ScopeNode } from "../../src/scope-node.js";
import { request, settled, type Settled, type Step } from "./requests.js";

export interface RequestPlan {
  readonly afterMs: number;
  readonly script: readonly Step[];
  readonly limitMs: number | null;
  /** Its signal is aborted then, or there is one that never is; null: none. */
  readonly abortAfterMs: number | "never" | null;
  readonly detached: boolean;
}

export interface ScopePlan {
  readonly kind: "within" | "moving";
  readonly ms: number;
  readonly startMs: number;
  readonly leaveMs: number;
  /** Renewals of a deadline that moves, and `gone`, after which it stays so. */
  readonly moves: readonly { readonly afterMs: number; readonly byMs: number | "gone" }[];
  /** Its signal is aborted then, or there is one that never is; null: none. */
  readonly abortAfterMs: number | "never" | null;
  readonly hook: { readonly takesMs: number; readonly extendsMs: number; readonly fails: boolean } | null;
  readonly requests: readonly RequestPlan[];
  readonly inner: readonly ScopePlan[];
}

const time = fc.integer({ min: 0, max: 1_500 });
/** Equal moments are what breaks an order: deadlines, replies, aborts and renewals often fall on the same one. */
const moment = fc.oneof(time, fc.constantFrom(0, 100, 200, 500, 1_000));
const soon = fc.oneof(fc.integer({ min: 0, max: 400 }), fc.constantFrom(0, 0, 100, 200));
const late = fc.oneof(fc.integer({ min: 500, max: 6_000 }), fc.constantFrom(1_000, 2_000));
/** How long a scope may and does last: mostly long enough for something to happen in it. */
const lifetime = fc.oneof({ weight: 1, arbitrary: moment }, { weight: 3, arbitrary: late });
const sometimes = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | null> =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(null) }, { weight: 1, arbitrary });

const aborts = fc.oneof(moment, fc.constant("never" as const));

const ended = (kind: "answer" | "fault" | "refused" | "reset"): fc.Arbitrary<Step> =>
  fc.record({ kind: fc.constant(kind), afterMs: fc.oneof(soon, moment) });
const sentStep: fc.Arbitrary<Step> = fc.oneof(
  ended("answer"),
  ended("fault"),
  ended("reset"),
  fc.constant<Step>({ kind: "silent" }),
);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 3, arbitrary: sentStep },
  { weight: 1, arbitrary: ended("refused") },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("queued" as const), forMs: moment, then: sentStep }) },
);
const requestPlan: fc.Arbitrary<RequestPlan> = fc
  .record({
    afterMs: fc.oneof({ weight: 4, arbitrary: soon }, { weight: 1, arbitrary: moment }),
    script: fc.array(step, { minLength: 1, maxLength: 4 }),
    limitMs: sometimes(moment),
    abortAfterMs: sometimes(aborts),
    detached: fc.nat(5).map((n) => n === 0),
  })
  .map((one) => ({ ...one, limitMs: one.detached ? (one.limitMs ?? 3_000) : one.limitMs })); // nothing else bounds that

export const { plan } = fc.letrec<{ plan: ScopePlan }>((tie) => ({
  plan: fc.record({
    kind: fc.constantFrom("within" as const, "moving" as const),
    ms: fc.oneof(
      { weight: 6, arbitrary: lifetime },
      { weight: 1, arbitrary: fc.double({ min: 0, max: 5, noNaN: true }) },
    ),
    startMs: fc.constantFrom(0, 0, 100, 130),
    leaveMs: lifetime,
    moves: fc.array(
      fc.record({
        afterMs: moment,
        byMs: fc.oneof({ weight: 4, arbitrary: time }, { weight: 1, arbitrary: fc.constant("gone" as const) }),
      }),
      { maxLength: 3 },
    ),
    abortAfterMs: sometimes(aborts),
    hook: sometimes(
      fc.record({ takesMs: moment, extendsMs: time, fails: fc.boolean() }).map((hook) => ({
        ...hook,
        // A hook that fails is rarer than one that works.
        fails: hook.fails && hook.takesMs % 2 === 0,
      })),
    ),
    requests: fc.array(requestPlan, { maxLength: 3 }),
    inner: fc.oneof({ depthSize: "small" }, fc.constant([]), fc.array(tie("plan"), { maxLength: 2 })),
  }),
}));

/** A scope as the world knows it. */
export interface OpenScope {
  readonly plan: ScopePlan;
  readonly outer: OpenScope | null;
  due: Instant;
  gone: boolean;
  aborted: boolean;
  closedAt: number;
  /** When its promise must be settled: by the deadline of a within, or the abort of its signal. */
  leaveBy: number;
  /** [from, to] of each run of its hook. */
  readonly hooks: { from: number; to: number }[];
  node: ScopeNode | null;
}

/** A request as its transport and its caller saw it. */
export interface Observed {
  readonly plan: RequestPlan;
  /** The scope that it is made in; null: detached. */
  readonly scope: OpenScope | null;
  begunAt: number;
  aborted: boolean;
  limitDue: number;
  /** The deadline in force when the call last looked: at its beginning, its attempts and its failures. */
  binding: number;
  /** What became of each attempt that was sent, and when; undefined while it runs. */
  readonly sent: { readonly atMs: number; ends?: { as: Step["kind"]; atMs: number } }[];
  /** What was wrong in the moment that it happened. */
  readonly wrong: string[];
  end: Settled;
  /** For detached work: what the caller that joined it got. */
  joined: { readonly scope: OpenScope; readonly begunAt: number; readonly end: Settled } | null;
}

export const around = (scope: OpenScope | null): OpenScope[] => (scope ? [scope, ...around(scope.outer)] : []);

export class HookError extends Error {}

export class World {
  readonly clock = new VirtualClock();
  readonly scopes: OpenScope[] = [];
  readonly requests: Observed[] = [];
  readonly signals: AbortSignal[] = [];

  async run(root: ScopePlan): Promise<void> {
    void this.#open(root, null).catch(() => undefined);
    await this.clock.advance(100_000);
  }

  /** The tightest deadline, as it is or, where one is gone, as it last was. */
  lastInForce(scope: OpenScope | null, limitDue = Infinity): number {
    return Math.min(limitDue, ...around(scope).map(({ due }) => due));
  }

  /** Timers, listeners and members of scopes that should not be there any more. */
  leftBehind(): string[] {
    const listeners = this.signals.reduce((sum, signal) => sum + getEventListeners(signal, "abort").length, 0);
    const members = this.scopes.reduce(
      (sum, { node }) => sum + (node?.waiting?.size ?? 0) + (node?.children?.size ?? 0) + (node?.hookRunning ? 1 : 0),
      0,
    );
    const counts = { timers: this.clock.pending, listeners, members };
    return Object.entries(counts).flatMap(([what, count]) => (count > 0 ? [`${count} ${what}`] : []));
  }

  #abortAfter(ms: number | "never" | null, tell: () => void): AbortSignal | undefined {
    if (ms === null) return undefined;
    const controller = new AbortController();
    this.signals.push(controller.signal);
    if (ms === "never") return controller.signal;
    this.clock.setTimer(ms, () => {
      tell();
      controller.abort(new Error("the caller's own"));
    });
    return controller.signal;
  }

  async #open(plan: ScopePlan, outer: OpenScope | null): Promise<void> {
    const { clock } = this;
    await clock.sleep(plan.startMs);
    const due = instantAfter(clock.now(), plan.ms);
    const scope: OpenScope = {
      plan,
      outer,
      due,
      gone: false,
      aborted: false,
      closedAt: Infinity,
      leaveBy: plan.kind === "within" ? due : Infinity,
      hooks: [],
      node: null,
    };
    this.scopes.push(scope);
    const signal = this.#abortAfter(plan.abortAfterMs, () => {
      scope.aborted = true;
      if (plan.kind === "within") scope.leaveBy = Math.min(scope.leaveBy, clock.now());
    });
    const options = { clock, signal };
    const deadline = (): Instant | "gone" => (scope.gone ? "gone" : scope.due);
    const beforeRequest = plan.hook ? () => this.#hook(scope, plan.hook!) : undefined;
    const work = (): Promise<void> => this.#inside(scope);
    const left =
      plan.kind === "within"
        ? within(plan.ms, work, options)
        : withDeadline(deadline, work, { ...options, beforeRequest });
    await left.finally(() => (scope.closedAt = clock.now()));
  }

  async #inside(scope: OpenScope): Promise<void> {
    const { clock } = this;
    const { plan } = scope;
    scope.node = frames.getStore()?.scope ?? null;
    if (plan.kind === "moving") {
      for (const { afterMs, byMs } of plan.moves) {
        clock.setTimer(afterMs, () => {
          if (byMs === "gone") scope.gone = true;
          else scope.due = instantAfter(scope.due, byMs);
        });
      }
    }
    // Nothing of this is awaited: some of it outlives the scope.
    for (const one of plan.requests) void clock.sleep(one.afterMs).then(() => this.#request(one, scope));
    for (const inner of plan.inner) this.#open(inner, scope).catch(() => undefined);
    await clock.sleep(plan.leaveMs);
  }

  async #hook(scope: OpenScope, plan: NonNullable<ScopePlan["hook"]>): Promise<void> {
    const run = { from: this.clock.now() as number, to: Infinity };
    scope.hooks.push(run);
    await this.clock.sleep(plan.takesMs);
    run.to = this.clock.now();
    if (plan.fails) throw new HookError("the renewal failed");
    if (!scope.gone) scope.due = instantAfter(scope.due, plan.extendsMs);
  }

  #request(plan: RequestPlan, scope: OpenScope): void {
    const { clock } = this;
    const one: Observed = {
      plan,
      scope: plan.detached ? null : scope,
      begunAt: clock.now(),
      aborted: false,
      limitDue: plan.limitMs === null ? Infinity : clock.now() + plan.limitMs,
      binding: -1,
      sent: [],
      wrong: [],
      end: {},
      joined: null,
    };
    this.requests.push(one);
    const signal = this.#abortAfter(plan.abortAfterMs, () => (one.aborted = true));
    const look = (): void => {
      if (around(one.scope).some(({ gone }) => gone)) return;
      one.binding = Math.max(one.binding, this.lastInForce(one.scope, one.limitDue));
    };
    const begin = (): Promise<string> => {
      look();
      const call = request({
        clock,
        script: plan.script,
        ...(signal && { signal }),
        ...(plan.limitMs !== null && { limit: { name: "limit", ms: plan.limitMs, knobs: {} } }),
        transport: {
          begins: look,
          fails: look,
          sends: (msLeft) => {
            look();
            this.#judgeSend(one, msLeft);
            one.sent.push({ atMs: clock.now() });
          },
          ends: (as) => (one.sent.at(-1)!.ends = { as, atMs: clock.now() }),
        },
      });
      one.end = settled(clock, call);
      return call;
    };
    if (plan.detached) one.joined = { scope, begunAt: clock.now(), end: settled(clock, detached(begin)) };
    else void begin().catch(() => undefined);
  }

  /** What must hold in the moment that an attempt goes out. */
  #judgeSend(one: Observed, msLeft: number): void {
    const now = this.clock.now();
    const scopes = around(one.scope);
    const inForce = this.lastInForce(one.scope, one.limitDue);
    if (scopes.some(({ closedAt }) => closedAt < Infinity)) one.wrong.push("sent in a scope that was left");
    if (scopes.some(({ gone }) => gone)) one.wrong.push("sent though the lease is gone");
    if (one.aborted || scopes.some(({ aborted }) => aborted)) one.wrong.push("sent after an abort");
    if (msLeft < 1) one.wrong.push(`sent with ${msLeft} ms left`);
    if (msLeft !== Math.floor(inForce - now)) one.wrong.push(`sent with ${msLeft} ms of ${inForce - now}`);
    const hooked = scopes.find(({ plan }) => plan.kind === "moving" && plan.hook !== null);
    const ran = hooked?.hooks.some(({ from, to }) => to >= one.begunAt && from <= now && to <= now);
    if (hooked && one.scope && !ran) one.wrong.push("sent before the hook");
  }
}
