// One request and its answer on their way through the proxy.
import { withoutHeader, type Head } from "../http/head.js";
import { passFlow, passing, type Plan, type ProxiedRequest } from "./faults.js";
import type { RequestEntry } from "./log.js";
import { Valve, type ValveEnds } from "./valve.js";

/** @internal */
export interface ExchangeEnds {
  /** Says what happens to the request. */
  decide(request: ProxiedRequest): Plan;
  /** Whether a rule may look at the start of the body, so that it has to be waited for. */
  looksAtBody(): boolean;
  request: ValveEnds;
  answer: ValveEnds;
}

/** @internal */
export class Exchange {
  readonly entry: RequestEntry;
  readonly request: Valve;
  readonly answer: Valve;
  readonly #ends: ExchangeEnds;
  readonly #bodyStartBytes: number;
  #head: Head | null = null;
  #headBytes = 0;
  #body: Buffer = Buffer.alloc(0);
  #decided = false;
  #answering = false;
  plan: Plan = passing;

  constructor(entry: RequestEntry, bodyStartBytes: number, ends: ExchangeEnds) {
    this.entry = entry;
    this.#bodyStartBytes = bodyStartBytes;
    this.#ends = ends;
    this.request = new Valve(ends.request);
    this.answer = new Valve(ends.answer);
  }

  get method(): string {
    return this.#head?.line[0] ?? "";
  }

  /** It is being kept and will be delivered, or was delivered late and its answer is still to come. */
  get late(): boolean {
    return this.plan.late && !this.entry.answerComplete;
  }

  head(head: Head, raw: Buffer, withoutExpect: boolean): void {
    this.#head = head;
    this.#headBytes = raw.length;
    this.request.push(withoutExpect ? withoutHeader(raw, "expect") : raw);
    if (!this.#ends.looksAtBody() || this.#bodyStartBytes === 0) this.decide();
  }

  payload(bytes: Buffer): void {
    const missing = this.#bodyStartBytes - this.#body.length;
    if (missing <= 0) return;
    this.#body = Buffer.concat([this.#body, bytes.subarray(0, missing)]);
    if (this.#decided) this.entry.request = this.#seen();
    else if (this.#body.length >= this.#bodyStartBytes) this.decide();
  }

  /** All has come, or the client has left before it had: `complete` says which. A torn head meets no rule. */
  finish(complete: boolean): void {
    this.entry.complete = complete;
    if (this.#head !== null) this.decide();
    else if (!this.#decided) this.request.follow(passFlow);
    this.request.finish();
  }

  /** Asks the rules, once. */
  decide(): void {
    if (this.#decided) return;
    this.#decided = true;
    const request = this.#seen();
    this.entry.request = request;
    this.plan = this.#ends.decide(request);
    this.entry.faults = this.plan.kinds;
    this.request.follow(this.plan.request);
  }

  /** The first byte of the answer is here: a delay counts from now. */
  answerBegins(): void {
    if (this.#answering) return;
    this.#answering = true;
    this.answer.follow(this.plan.answer);
  }

  #seen(): ProxiedRequest {
    return {
      connection: this.entry.connection,
      number: this.entry.number,
      method: this.method,
      url: this.#head?.line[1] ?? "",
      headers: this.#head?.headers ?? {},
      headBytes: this.#headBytes,
      bodyStart: this.#body.toString("utf8"),
    };
  }
}
