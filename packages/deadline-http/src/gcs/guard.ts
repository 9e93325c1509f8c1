import type { EventEmitter } from "node:events";
import type { Readable, Writable } from "node:stream";
import type { Outcome } from "../errors.js";
import { frames, type Frame } from "../registry.js";
import type { ScopeNode } from "../scope-node.js";
import { Wait } from "../wait.js";
import { currentOperation, inOperation, Operation } from "./operation.js";

interface Destroyable {
  destroy(error?: Error): unknown;
}

/**
 * Where a stream was made: its scope and its call. What it asks for later, when its user reads or writes, is asked for
 * from here: the user may have left the scope, or be in another.
 */
export class Origin {
  readonly operation: Operation;
  readonly #frame: Frame | undefined = frames.getStore();
  /** The stream is the call's own result: errors leave through it. */
  readonly #outermost: boolean;

  constructor() {
    const running = currentOperation();
    this.operation = running ?? new Operation();
    this.#outermost = running === undefined;
  }

  run<T>(fn: () => T): T {
    return frames.run(this.#frame, () => inOperation(this.operation, fn));
  }

  /** Ends the stream by the deadline, and when the scope is left, whether or not a request of it is on its way. */
  guard(stream: Readable | Writable): void {
    if (this.#outermost) {
      const one: Destroyable = stream;
      const destroy = one.destroy.bind(stream);
      one.destroy = (error) => destroy(error && (this.operation.translate(error) as Error));
      this.#tellOutside(stream);
    }
    const scope = this.#frame?.scope;
    if (!scope) return;
    const wait = new StreamWait(scope, this.operation, stream);
    stream.once("close", () => wait.leave());
    try {
      wait.enter();
      wait.arm(wait.read(), true);
    } catch (error) {
      wait.leave();
      stream.on("error", () => undefined);
      stream.destroy(error as Error);
    }
  }

  /**
   * What comes from the network is told in the middle of the call, and would drag the requests that a listener makes into
   * it: they are calls of their own, in the scope that the stream was made in.
   */
  #tellOutside(stream: EventEmitter): void {
    const emit = stream.emit.bind(stream);
    stream.emit = (event: string, ...args: unknown[]): boolean =>
      frames.run(this.#frame, () => inOperation(undefined, () => emit(event, ...args)));
  }
}

class StreamWait extends Wait {
  constructor(
    scope: ScopeNode,
    readonly operation: Operation,
    readonly stream: Readable | Writable,
  ) {
    super(scope, scope.rule.clock, null, null);
  }

  override unsent(): boolean {
    return this.outcomeNow() === "not-sent";
  }

  override outcomeNow(): Outcome {
    return this.operation.outcome();
  }

  protected override onEnd(error: Error): void {
    this.leave();
    // Its user may have left it unread: an error that nobody waits for does not become an uncaught one.
    this.stream.on("error", () => undefined);
    this.stream.destroy(error);
  }
}
