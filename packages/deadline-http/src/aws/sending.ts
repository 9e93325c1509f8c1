import { runCall, type Attempt } from "../call.js";
import type { Clock } from "../clock.js";
import { ConfigError } from "../errors.js";
import { frames } from "../registry.js";
import { boundBody, openBody } from "./body.js";
import { classify, type CommandFacts } from "./failures.js";
import { Run, type Runs } from "./handler.js";
import { onceOnly, untouched } from "./request-body.js";
import { recognisable, withoutSecrets } from "./vendor-error.js";

export interface SendRules {
  readonly clock: Clock;
  readonly requestTimeoutMs: number | null;
  readonly maxAttempts: number;
  readonly runs: Runs;
  readonly send: (command: object, options: object) => Promise<unknown>;
}

const limitOf = (rules: SendRules) =>
  rules.requestTimeoutMs === null
    ? null
    : { name: "requestTimeoutMs", ms: rules.requestTimeoutMs, knobs: { requestTimeoutMs: rules.requestTimeoutMs } };

/** One `send` of a bound client: the vendor's whole pipeline, once per attempt. */
export class Sending {
  readonly #streams: readonly object[];
  #run: Run | null = null;

  constructor(
    readonly rules: SendRules,
    readonly command: object,
    readonly options: object,
  ) {
    this.#streams = onceOnly(command);
  }

  async run(): Promise<unknown> {
    const { rules } = this;
    try {
      return await runCall({
        clock: rules.clock,
        limit: limitOf(rules),
        signal: signalOf(this.options),
        maxAttempts: rules.maxAttempts,
        attempt: (attempt) => this.#attempt(attempt),
        classify: (error, sent) => classify(error, sent, this.#run, this.#facts()),
      });
    } catch (error) {
      throw recognisable(error);
    }
  }

  #facts(): CommandFacts {
    return { repeatable: this.#streams.every(untouched) };
  }

  async #attempt(attempt: Attempt): Promise<unknown> {
    const run = new Run(attempt);
    this.#run = run;
    const caller = frames.getStore();
    this.rules.runs.set(attempt.signal, run);
    try {
      // Outside the caller's scope: credentials, sessions and regions that the client looks up here are shared by all its
      // callers. This call waits for them no longer than its own bound, and they go on.
      const output = await frames.run(undefined, () =>
        this.rules.send(this.command, { ...this.options, abortSignal: attempt.signal }),
      );
      const body = openBody(output, run.body);
      if (body) boundBody(body, attempt, caller);
      return output;
    } catch (error) {
      run.giveUp();
      throw withoutSecrets(error, run.request);
    }
  }
}

function signalOf(options: object): AbortSignal | null {
  const signal: unknown = Reflect.get(options, "abortSignal");
  if (signal === undefined || signal === null) return null;
  if (typeof signal === "object" && "addEventListener" in signal) return signal as AbortSignal;
  throw new ConfigError("abortSignal is none of the platform's: give the signal of a global AbortController");
}
