import type { ProxiedRequest, ProxyFault } from "./faults.js";
import type { TlsCount } from "./tls-records.js";

/** Bytes that came or went together. Times everywhere: ms since the epoch from the monotonic clock, see `nowMs`. */
export interface LoggedChunk {
  readonly atMs: number;
  readonly bytes: number;
}

/** What one request did at the proxy. The object is live: it goes on changing until the answer is over. */
export interface LoggedRequest {
  readonly connection: number;
  /** On its connection, from 1. */
  readonly number: number;
  /** As the rules saw it; undefined until the head (and, if a rule looks at bodies, the start of the body) has come. */
  readonly request: ProxiedRequest | undefined;
  /** The faults of the rule that it met. */
  readonly faults: readonly ProxyFault["kind"][];
  /** When the proxy read the first byte of it from the client. */
  readonly firstByteAt: number;
  /** When it read the newest one; the last of all once `complete`. */
  readonly lastByteAt: number;
  /** Bytes read from the client, head included. Above 0 always: a request of which nothing came is not in the log. */
  readonly bytes: number;
  /** All of the request has come. */
  readonly complete: boolean;
  /** What of it was handed to the connection to the server. */
  readonly delivered: "nothing" | "part" | "whole";
  readonly deliveredBytes: number;
  readonly deliveredFirstAt: number | undefined;
  /** When its last byte was handed over: defined exactly when `delivered` is `whole`. */
  readonly deliveredAt: number | undefined;
  /** The server's status, from its head. */
  readonly status: number | undefined;
  /** Bytes read from the server. */
  readonly answerBytes: number;
  readonly answerFirstByteAt: number | undefined;
  readonly answerLastByteAt: number | undefined;
  readonly answerComplete: boolean;
  /** Bytes of the answer handed to the connection to the client. */
  readonly answerPassed: number;
  /** Bytes of the answer were thrown away because the client had left. */
  readonly answerDiscarded: boolean;
}

/** One connection at the proxy. The object is live. */
export interface LoggedConnection {
  /** From 1, in the order of arrival. */
  readonly number: number;
  readonly openedAt: number;
  /** When the client's half of it was over: its end of stream, or its error. */
  readonly clientLeftAt: number | undefined;
  /** The client ended it with a reset (or an error of the network). */
  readonly clientReset: boolean;
  /** When both halves were closed, by whomever. */
  readonly closedAt: number | undefined;
  /** What the proxy itself did to it. */
  readonly cutBy: "fin" | "rst" | undefined;
  /** The error of the connection to the server, when there was one (its `code`). */
  readonly serverError: string | undefined;
  /** What came from the client, chunk by chunk. */
  readonly fromClient: readonly LoggedChunk[];
  readonly toServer: readonly LoggedChunk[];
  readonly fromServer: readonly LoggedChunk[];
  readonly toClient: readonly LoggedChunk[];
  /** The sum of `fromClient`: 0 says that no byte of the client's was read at all. */
  readonly bytesFromClient: number;
  readonly bytesToServer: number;
  readonly bytesFromServer: number;
  readonly bytesToClient: number;
  readonly requests: readonly LoggedRequest[];
  /** The TLS records of both sides; undefined where the stream is HTTP in the clear or begins with no TLS record. */
  readonly tls: { readonly client: TlsCount; readonly server: TlsCount } | undefined;
}

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

/** @internal */
export type RequestEntry = Mutable<LoggedRequest>;

/** @internal */
export interface ConnectionEntry extends Mutable<Omit<LoggedConnection, "requests">> {
  fromClient: LoggedChunk[];
  toServer: LoggedChunk[];
  fromServer: LoggedChunk[];
  toClient: LoggedChunk[];
  requests: RequestEntry[];
}

/** @internal */
export const newConnection = (number: number, atMs: number): ConnectionEntry => ({
  number,
  openedAt: atMs,
  clientLeftAt: undefined,
  clientReset: false,
  closedAt: undefined,
  cutBy: undefined,
  serverError: undefined,
  fromClient: [],
  toServer: [],
  fromServer: [],
  toClient: [],
  bytesFromClient: 0,
  bytesToServer: 0,
  bytesFromServer: 0,
  bytesToClient: 0,
  requests: [],
  tls: undefined,
});

/** @internal */
export const newRequest = (connection: number, number: number, atMs: number): RequestEntry => ({
  connection,
  number,
  request: undefined,
  faults: [],
  firstByteAt: atMs,
  lastByteAt: atMs,
  bytes: 0,
  complete: false,
  delivered: "nothing",
  deliveredBytes: 0,
  deliveredFirstAt: undefined,
  deliveredAt: undefined,
  status: undefined,
  answerBytes: 0,
  answerFirstByteAt: undefined,
  answerLastByteAt: undefined,
  answerComplete: false,
  answerPassed: 0,
  answerDiscarded: false,
});
