import type { EmbeddedErrorCode } from "./errors.js";
import type { RecentQuery } from "./recent-log.js";

/** What the child is started with. Sent over the channel and not as arguments, which other users of the machine can read. */
export type StartMessage = {
  readonly type: "start";
  readonly dataDir: string;
  readonly port: number;
  readonly password: string;
  readonly durable: boolean;
  readonly maxConcurrentQueries: number;
};

export type ToChild = StartMessage | { readonly type: "recent"; readonly id: number } | { readonly type: "stop" };

export type FromChild =
  | { readonly type: "up" }
  | { readonly type: "ready"; readonly port: number }
  | {
      readonly type: "failed";
      readonly code: EmbeddedErrorCode;
      readonly message: string;
      /** The engine printed why. */ readonly opening: boolean;
    }
  | { readonly type: "recent"; readonly id: number; readonly queries: readonly RecentQuery[] };
