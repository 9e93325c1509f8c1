// Only a simulator goes below the public clients: what a request obeys (scopes, hook, attempts, outcome) is the product's own code.
import { runCall, type Failure } from "../../../packages/deadline-http/src/call.js";
import type { EventQueue } from "./event-queue.js";
import type { EventLog } from "./log.js";
import type { Machine } from "./machine.js";
import type { Mix, StatementFaults } from "./mix.js";
import { between, chance, pick, type Random } from "./prng.js";

/** How the way between a machine and the server is cut. */
export type Cut = "refuses" | "loses" | "holds";

/** A statement, as the network sees it. */
export interface Statement<T> {
  readonly kind: string;
  readonly write: boolean;
  /** ms at the server. */
  readonly serviceMs: number;
  /** The server ends it after this long at the latest; Infinity: when its client does. */
  readonly serverCapMs: number;
  /** The server's time limit counts for it, as it does for lease INSERTs and fenced statements. */
  readonly capped: boolean;
  /** Told once for each attempt, just before it is sent, with the whole ms that it has. */
  readonly sent: (leftMs: number, attempt: number) => void;
  /** It begins at the server; what it answers is called when it is done and makes the result. */
  readonly execute: (server: number, durationMs: number) => () => T;
}

/** What executes the statements. */
export interface Servers {
  /** Nothing is executed before this true time. */
  readonly stalledUntil: number;
  /** The server that a statement comes to. */
  server(): number;
}

type Pace = Pick<Mix, "latencyMs" | "readMs" | "insertMs">;

class Fault extends Error {
  constructor(readonly failure: Failure) {
    super(failure.text);
  }
}

const fault = (text: string, outcome: Failure["outcome"], more: Partial<Failure> = {}): Fault =>
  new Fault({ text, outcome, retry: false, ...more });

const limitCodes = [159, 473, 319];

/** Carries statements from machines to the server and back, with the faults of the mix. */
export class Network<S extends Servers = Servers> {
  /** Null once the faults have ended. */
  faults: StatementFaults | null = null;
  /** How long statements take on their way and at the server. */
  pace: Pace;
  readonly cuts = new Map<number, { kind: Cut; until: number }>();
  /** What is held up arrives then at the latest: the end of the part with faults. */
  healsAt = Infinity;

  constructor(
    readonly queue: EventQueue,
    readonly catalog: S,
    readonly mix: Pace & Pick<Mix, "ttlMs">,
    readonly random: Random,
    readonly log: EventLog,
  ) {
    this.pace = mix;
  }

  /** Sends a statement from a machine, as the product's clients do, and answers what the server did. */
  request<T>(machine: Machine, statement: Statement<T>): Promise<T> {
    return runCall<T>({
      clock: machine,
      limit: null,
      signal: null,
      maxAttempts: 3,
      attempt: (attempt) =>
        new Promise<T>((resolve, reject) => {
          const leftMs = attempt.start();
          statement.sent(leftMs, attempt.number);
          this.#send(machine, statement, leftMs, {
            markSent: () => attempt.markSent(),
            over: () => attempt.ended !== null,
            resolve,
            reject,
          });
        }),
      classify: (error, sent): Failure => {
        if (error instanceof Fault) return error.failure;
        throw new Error(`not a fault of the network (${sent}): ${String(error)}`, { cause: error });
      },
    });
  }

  #send<T>(
    machine: Machine,
    statement: Statement<T>,
    leftMs: number,
    client: {
      markSent(): void;
      over(): boolean;
      resolve(value: T): void;
      reject(error: Error): void;
    },
  ): void {
    const { random, queue, mix } = this;
    const at = machine.trueNow();
    const way = (): number => between(random, this.pace.latencyMs[0], this.pace.latencyMs[1]);
    const cut = this.#cut(machine);
    const { faults } = this;
    this.log.add(at, machine.id, statement.kind);
    this.log.note(leftMs);
    const answer = (ms: number, say: () => void): void =>
      queue.at(at + ms, () =>
        machine.reply(() => {
          if (!client.over()) say();
        }),
      );
    if (cut?.kind === "refuses" || (faults && chance(random, faults.unsent))) {
      answer(way(), () => client.reject(fault("connection refused", "not-sent", { retry: true })));
      return;
    }
    client.markSent();
    if (cut?.kind === "loses" || (faults && chance(random, faults.lost))) return;
    if (faults && chance(random, faults.refused)) {
      answer(way() * 2, () => client.reject(fault("refused before execution", "refused", { serverCode: 286 })));
      return;
    }
    let arrives = at + way();
    if (cut?.kind === "holds") arrives = Math.max(arrives, cut.until);
    if (faults && chance(random, faults.late)) {
      arrives = Math.max(arrives, Math.min(at + random() * faults.lateTtls * mix.ttlMs, this.healsAt));
    }
    const silent = faults !== null && chance(random, faults.answerLost);
    const breaks = !silent && faults !== null && chance(random, faults.reset);
    queue.at(arrives, () =>
      this.#arrive(statement, leftMs, (error, result) => {
        if (silent) return;
        const back = this.#cut(machine);
        if (back?.kind === "loses") return;
        queue.after(way(), () =>
          machine.reply(() => {
            if (client.over()) return;
            if (breaks) client.reject(fault("the connection was reset", "unknown", { retry: !statement.write }));
            else if (error) client.reject(error);
            else client.resolve(result as T);
          }),
        );
      }),
    );
    // A fenced statement that somebody in between repeats is beyond what its sender can know: not promised.
    if (statement.write && statement.kind !== "fenced" && faults && chance(random, faults.duplicate)) {
      const again = Math.min(arrives + random() * faults.lateTtls * mix.ttlMs, Math.max(arrives, this.healsAt));
      queue.at(again, () => this.#arrive(statement, leftMs, () => undefined));
    }
  }

  #arrive<T>(statement: Statement<T>, leftMs: number, done: (error: Fault | null, result: T | null) => void): void {
    const { queue, random, faults, catalog } = this;
    if (catalog.stalledUntil > queue.now) {
      queue.at(catalog.stalledUntil, () => this.#arrive(statement, leftMs, done));
      return;
    }
    const capMs = statement.capped ? Math.min(leftMs, statement.serverCapMs) : Infinity;
    const overruns = statement.capped && faults !== null && chance(random, faults.limited);
    const serviceMs = overruns ? capMs + 1 : statement.serviceMs;
    const server = catalog.server();
    if (serviceMs <= capMs) {
      const finish = statement.execute(server, serviceMs);
      queue.after(serviceMs, () => done(null, finish()));
      return;
    }
    // Limits are looked at between two points only: the row may be there all the same, at once or after the answer.
    const code = pick(random, limitCodes);
    const error = fault(`time limit of the server`, "unknown", { timedOut: true, serverCode: code });
    const lands = random();
    const finish = lands < 0.6 ? statement.execute(server, capMs) : null;
    queue.after(capMs, () => {
      if (finish !== null && lands < 0.4) finish();
      else if (finish !== null) queue.after(random() * 50, finish);
      done(error, null);
    });
  }

  #cut(machine: Machine): { kind: Cut; until: number } | undefined {
    const cut = this.cuts.get(machine.id);
    return cut && cut.until > this.queue.now ? cut : undefined;
  }
}
