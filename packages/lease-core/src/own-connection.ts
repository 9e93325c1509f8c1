import { lookup, type LookupAddress } from "node:dns";
import { Agent } from "node:http";
import type { LookupFunction } from "node:net";
import type { ClickHouseClient } from "@clickhouse/client";

/** The parts of the vendor's own connection (`@clickhouse/client` 1.x) that are used to make another one like it. */
interface VendorConnection {
  readonly constructor: new (params: object) => VendorConnection;
  readonly agent: Agent & { readonly options: object };
  readonly params: { readonly http_agent?: unknown; readonly keep_alive: { readonly idle_socket_ttl: number } };
  close(): Promise<void>;
}

/** A client for the lease alone, and how to end its connection. */
export interface OwnConnection {
  readonly client: ClickHouseClient;
  /** False when the requests go through the user's own connection, as this one cannot be made anew. */
  readonly own: boolean;
  close(): Promise<void>;
}

/**
 * The same client with a connection of its own: one socket, kept alive for `idleMs` (unless keep-alive is turned off there), whose address
 * is cached, so that nothing of the user's queues before a lease statement, no name has to be looked up for one, and it leaves at once.
 * `client` is neither changed nor closed. A client with an agent or connection that its user injected keeps that one: its user decides what goes through it.
 */
export function ownConnection(client: ClickHouseClient, idleMs: number): OwnConnection {
  const vendor = vendorConnection(client);
  if (vendor === null) return { client, own: false, close: () => Promise.resolve() };
  const { idle_socket_ttl } = vendor.params.keep_alive;
  const connection = new vendor.constructor({
    ...vendor.params,
    max_open_connections: 1,
    keep_alive: { ...vendor.params.keep_alive, idle_socket_ttl: Math.max(idle_socket_ttl, idleMs) },
  });
  Object.assign(connection.agent.options, { lookup: cachedLookup(lookup) });
  return {
    client: Object.create(client, { connection: { value: connection } }) as ClickHouseClient,
    own: true,
    close: () => connection.close(),
  };
}

/** The vendor's connection of this client, or of the one that it was bound from; null when it is of another make. */
function vendorConnection(client: ClickHouseClient): VendorConnection | null {
  for (let at: object | null = client; at !== null; at = Object.getPrototypeOf(at) as object | null) {
    const connection = Object.getOwnPropertyDescriptor(at, "connection")?.value as
      Partial<VendorConnection> | undefined;
    if (connection === undefined || !(connection.agent instanceof Agent)) continue;
    const { params } = connection;
    return params?.http_agent === undefined && params?.keep_alive !== undefined
      ? (connection as VendorConnection)
      : null;
  }
  return null;
}

type Answer = string | LookupAddress[];

/**
 * Looks names up through `inner`, and answers from the last success when there is one, at once, while it asks again for the next time. A name
 * server that is slow or gone then delays nothing but the very first connection, and an address that has moved is wrong for one attempt.
 */
export function cachedLookup(inner: typeof lookup): LookupFunction {
  const known = new Map<string, { answer: Answer; family: number | undefined }>();
  return (hostname, options, callback) => {
    const key = JSON.stringify([hostname, options.family ?? 0, options.hints ?? 0, options.all === true]);
    const before = known.get(key);
    inner(hostname, options, (error: NodeJS.ErrnoException | null, answer: Answer, family?: number) => {
      if (error === null) known.set(key, { answer, family });
      if (before === undefined) callback(error, answer, family);
    });
    // Later, as a real answer would be: a callback that runs before its caller is done surprises.
    if (before !== undefined) process.nextTick(callback, null, before.answer, before.family);
  };
}
