export { startFaultProxy, type FaultProxy, type FaultProxyOptions } from "./proxy/proxy.js";
export type { AcceptFault, CutBy, PerRequest, ProxiedRequest, ProxyFault, ProxyRule } from "./proxy/faults.js";
export type { LoggedChunk, LoggedConnection, LoggedRequest } from "./proxy/log.js";
export type { TlsCount } from "./proxy/tls-records.js";
export { nowMs } from "./system-clock.js";
export { until } from "./until.js";
export { startFaultServer, type Effect, type FaultServer, type FaultServerOptions } from "./server/server.js";
export type { ServerConnection } from "./server/connection.js";
export type { Answer, Matcher, ReceivedRequest, Script } from "./server/script.js";
export { delivered, type Delivery, type Framing, type Place, type Reply } from "./server/reply.js";
export {
  badGzip,
  changed,
  closeIdle,
  cut,
  cutGzip,
  delayAnswer,
  effect,
  late,
  resetOnReuse,
  stallBeforeBody,
  stallBeforeHeaders,
  stallMidBody,
  stallMidHeaders,
  times,
  trickle,
  wrongEncoding,
} from "./server/faults.js";
export {
  exception,
  exceptionIn200,
  exceptionShapes,
  exceptionText,
  rows,
  rowsCut,
  rowsUnframed,
  timeLimit159,
  timeLimit319,
  timeLimit473,
  unavailable,
  type ExceptionShape,
  type ServerException,
} from "./server/clickhouse.js";
export { awsContainerCredentials, oauthToken } from "./server/credentials.js";
export { closedPort, lookupFails, lookupStalls, oneSocketAgent } from "./net/unreachable.js";
export { blackholePort, type Blackhole } from "./net/blackhole.js";
export { s3Error, s3Objects, type S3Objects } from "./server/s3.js";
export { gcsObjects, type GcsObjects, type GcsObjectsOptions } from "./server/gcs.js";
export { gcsError } from "./server/gcs-reply.js";
export type { GcsSession, KeptBytes } from "./server/gcs-session.js";
export type { Objects, StoredObject } from "./server/objects.js";
