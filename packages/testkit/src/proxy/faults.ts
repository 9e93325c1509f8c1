/** How a connection is ended: an orderly end of stream, or a reset. */
export type CutBy = "fin" | "rst";

/** A request as the rules of a proxy see it. */
export interface ProxiedRequest {
  /** Of the connection that it came on, counted from 1. */
  readonly connection: number;
  /** Which request of that connection it is, counted from 1: above 1 the connection was reused. */
  readonly number: number;
  /** Empty in raw mode. */
  readonly method: string;
  /** The request target as sent, `/?query=…`; empty in raw mode. */
  readonly url: string;
  /** Names in small letters. */
  readonly headers: Readonly<Record<string, string>>;
  /** Size of first line and headers: where the body begins, for `afterBytes`. */
  readonly headBytes: number;
  /** The first bytes of the body (1,024 unless told otherwise), chunk sizes taken off, as text. */
  readonly bodyStart: string;
}

/** A number, or one worked out from the request. */
export type PerRequest = number | ((request: ProxiedRequest) => number);

/**
 * What the proxy does to a request or to its answer. `afterBytes` counts from the first byte of the request line (or
 * status line), as the bytes travel. Several may be combined in one rule: at most one each for the request, the answer
 * and the idle connection.
 *
 * - `stall`: forwards `afterBytes` (0) of the request, then nothing until `release()`. Dropped if the client leaves first.
 * - `delay`: forwards the request `ms` later; dropped if the client leaves first.
 * - `hold`: keeps the request for `ms` (without it: until `release()`), then delivers it **even if the client has left**;
 *   the answer is discarded if it has.
 * - `cut-request`: forwards `afterBytes` of the request, then ends both connections.
 * - `trickle-request`, `trickle-answer`: one byte every `everyMs`.
 * - `stall-answer`, `delay-answer`, `cut-answer`: likewise for the answer. A delayed answer is counted from its first byte.
 * - `close-idle`: ends the client's connection `afterMs` after the answer was passed on.
 */
export type ProxyFault =
  | { readonly kind: "stall"; readonly afterBytes?: PerRequest }
  | { readonly kind: "delay"; readonly ms: PerRequest }
  | { readonly kind: "hold"; readonly ms?: PerRequest }
  | { readonly kind: "cut-request"; readonly afterBytes: PerRequest; readonly by: CutBy }
  | { readonly kind: "trickle-request"; readonly everyMs: number }
  | { readonly kind: "stall-answer"; readonly afterBytes?: PerRequest }
  | { readonly kind: "delay-answer"; readonly ms: PerRequest }
  | { readonly kind: "cut-answer"; readonly afterBytes: PerRequest; readonly by: CutBy }
  | { readonly kind: "trickle-answer"; readonly everyMs: number }
  | { readonly kind: "close-idle"; readonly afterMs: number; readonly by: CutBy };

/** Which requests meet which fault. The first rule that matches and has `times` left is the one that counts. */
export interface ProxyRule {
  /** Without it every request matches. */
  readonly match?: (request: ProxiedRequest) => boolean;
  /** For how many requests; without it for all. */
  readonly times?: number;
  readonly fault: ProxyFault | readonly ProxyFault[];
}

/** What happens to a connection before anything is read from it. */
export interface AcceptFault {
  /** Nothing is served for so long: a slow accept. `Infinity`: never. */
  readonly afterMs?: number;
  /** The connection is ended instead (after `afterMs`). */
  readonly cut?: CutBy;
}

/** The fault of one direction, as a valve understands it. */
export interface FlowPlan {
  /** Shut for so long at first; Infinity: until released. */
  readonly shutMs: number;
  /** Bytes that may pass; then `cut`, or nothing more until released. */
  readonly limit: number;
  readonly cut: CutBy | null;
  /** One byte per so many ms; 0: as they come. */
  readonly everyMs: number;
}

/** All that one request meets. */
export interface Plan {
  readonly kinds: readonly ProxyFault["kind"][];
  readonly request: FlowPlan;
  readonly answer: FlowPlan;
  /** The request is delivered though the client has left. */
  readonly late: boolean;
  readonly idle: { readonly afterMs: number; readonly by: CutBy } | null;
}

/** Nothing is done. */
export const passFlow: FlowPlan = { shutMs: 0, limit: Infinity, cut: null, everyMs: 0 };

/** Nothing is done to a request. */
export const passing: Plan = { kinds: [], request: passFlow, answer: passFlow, late: false, idle: null };

/** What the faults of a rule do to this request. Throws a TypeError when two of them are for the same thing. */
export function planOf(faults: readonly ProxyFault[], request: ProxiedRequest): Plan {
  const of = (value: PerRequest | undefined, otherwise: number): number =>
    typeof value === "function" ? value(request) : (value ?? otherwise);
  let plan: Plan = { ...passing, kinds: faults.map((f) => f.kind) };
  for (const fault of faults) {
    switch (fault.kind) {
      case "stall":
        plan = { ...plan, request: { ...passFlow, limit: of(fault.afterBytes, 0) } };
        break;
      case "delay":
        plan = { ...plan, request: { ...passFlow, shutMs: of(fault.ms, 0) } };
        break;
      case "hold":
        plan = { ...plan, late: true, request: { ...passFlow, shutMs: of(fault.ms, Infinity) } };
        break;
      case "cut-request":
        plan = { ...plan, request: { ...passFlow, limit: of(fault.afterBytes, 0), cut: fault.by } };
        break;
      case "trickle-request":
        plan = { ...plan, request: { ...passFlow, everyMs: fault.everyMs } };
        break;
      case "stall-answer":
        plan = { ...plan, answer: { ...passFlow, limit: of(fault.afterBytes, 0) } };
        break;
      case "delay-answer":
        plan = { ...plan, answer: { ...passFlow, shutMs: of(fault.ms, 0) } };
        break;
      case "cut-answer":
        plan = { ...plan, answer: { ...passFlow, limit: of(fault.afterBytes, 0), cut: fault.by } };
        break;
      case "trickle-answer":
        plan = { ...plan, answer: { ...passFlow, everyMs: fault.everyMs } };
        break;
      case "close-idle":
        plan = { ...plan, idle: { afterMs: fault.afterMs, by: fault.by } };
        break;
    }
  }
  return plan;
}

const aim = (kind: ProxyFault["kind"]): "idle" | "answer" | "request" => {
  if (kind === "close-idle") return "idle";
  return kind.endsWith("answer") ? "answer" : "request";
};

/** The faults of a rule as a list; a TypeError when two are for the same direction. */
export function faultsOf(rule: ProxyRule): readonly ProxyFault[] {
  const list = "kind" in rule.fault ? [rule.fault] : rule.fault;
  const aims = list.map((fault) => aim(fault.kind));
  const twice = aims.find((a, at) => aims.indexOf(a) !== at);
  if (twice !== undefined) {
    const kinds = list.map((fault) => fault.kind).join(", ");
    throw new TypeError(`A rule has two faults for the ${twice}: ${kinds}. Use at most one of each.`);
  }
  return list;
}
