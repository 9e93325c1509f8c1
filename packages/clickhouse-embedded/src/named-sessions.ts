import { QueryError } from "./clickhouse-errors.js";
import type { Engine, EngineSession } from "./engine.js";
import type { ServerClock } from "./system-clock.js";

type Named = { readonly session: EngineSession; busy: boolean; expiry: { cancel(): void } | null };

/** Sessions that outlive a request (session_id): one request at a time each, closed when unused for their timeout. */
export class NamedSessions {
  readonly #engine: Engine;
  readonly #clock: ServerClock;
  readonly #sessions = new Map<string, Named>();

  constructor(engine: Engine, clock: ServerClock) {
    this.#engine = engine;
    this.#clock = clock;
  }

  /** Error 373 while another request uses it; 372 when it must exist and does not. */
  enter(o: { readonly id: string; readonly timeoutSeconds: number; readonly mustExist: boolean }): {
    readonly session: EngineSession;
    leave(): void;
  } {
    let named = this.#sessions.get(o.id);
    if (named?.busy === true) throw QueryError.of(373, `Session ${o.id} is locked by a concurrent client.`);
    if (named === undefined) {
      if (o.mustExist) throw QueryError.of(372, `Session ${o.id} not found.`);
      named = { session: this.#engine.session(), busy: false, expiry: null };
      this.#sessions.set(o.id, named);
    }
    const entered = named;
    entered.busy = true;
    entered.expiry?.cancel();
    return {
      session: entered.session,
      leave: () => {
        entered.busy = false;
        entered.expiry = this.#clock.after(o.timeoutSeconds * 1000, () => {
          this.#sessions.delete(o.id);
          void entered.session.close();
        });
      },
    };
  }

  async close(): Promise<void> {
    const all = [...this.#sessions.values()];
    this.#sessions.clear();
    for (const named of all) named.expiry?.cancel();
    await Promise.all(all.map((named) => named.session.close()));
  }
}
