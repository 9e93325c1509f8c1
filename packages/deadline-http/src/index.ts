export { instantAfter, type Clock, type Instant, type Timer } from "./clock.js";
export {
  CanceledError,
  ConfigError,
  DeadlineExceededError,
  LeaseLostError,
  RequestError,
  ScopeClosedError,
  type Bound,
  type FailureDetails,
  type Outcome,
} from "./errors.js";
export { systemClock } from "./registry.js";
export { detached, remainingMs, within, withDeadline, type Scope, type ScopeOptions } from "./scope.js";
