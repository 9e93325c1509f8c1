// The faults of the benchmark and how a request says which one it is to meet: in its address, as `call-NUMBER-CLIENT-FAULT`.

export const boundMs = 250;
/** A call that has not returned by then is given up, and counts as never returned. */
export const cutMs = 10 * boundMs;

export const clientNames = [
  "ClickHouse SELECT",
  "ClickHouse INSERT",
  "S3 GetObject",
  "S3 PutObject",
  "GCS download",
  "GCS save",
  "fetch GET",
  "fetch POST",
] as const;
export type ClientName = (typeof clientNames)[number];

/** Where its request does not get through: the client is made for such an address, or such a pool. */
const unreached = [
  "not accepted",
  "connect never completes",
  "refused",
  "unresolved",
  "lookup stalls",
  "pool exhausted",
  "credentials stall",
] as const;

/** What the server, or the proxy before it, does to a request that got through. */
const reached = [
  "stall before headers",
  "stall mid-headers",
  "stall before body",
  "stall mid-body",
  "trickling body",
  "trickling headers",
  "late answer",
  "503",
  "503 Retry-After",
  "bad gzip",
  "answer cut before headers",
  "answer cut mid-body",
  "request cut by FIN",
  "request cut by RST",
  "reset on reuse",
  "FIN on idle",
] as const;

export type Unreached = (typeof unreached)[number];
export type Reached = (typeof reached)[number];
export type FaultName = Unreached | Reached;
export const faultNames: readonly FaultName[] = [...unreached, ...reached];
export const isReached = (fault: FaultName): fault is Reached => reached.some((one) => one === fault);

export interface Case {
  readonly client: ClientName;
  readonly fault: FaultName;
}

/** Only these fetch credentials. */
const fetchesCredentials = (client: ClientName): boolean => client.startsWith("S3") || client.startsWith("GCS");

export const cases: readonly Case[] = faultNames.flatMap((fault) =>
  clientNames
    .filter((client) => fault !== "credentials stall" || fetchesCredentials(client))
    .map((client) => ({ client, fault })),
);

/** As it stands in an address. */
export const tagOf = (number: number, { client, fault }: Case): string =>
  `call-${number}-${clientNames.indexOf(client)}-${faultNames.indexOf(fault)}`;

/** The call that an address belongs to; null: none. */
export function callOf(address: string): ({ readonly number: number } & Case) | null {
  const [found, number, client, fault] = /call-(\d+)-(\d+)-(\d+)/.exec(address) ?? [];
  if (found === undefined) return null;
  const [clientName, faultName] = [clientNames[Number(client)], faultNames[Number(fault)]];
  return clientName && faultName ? { number: Number(number), client: clientName, fault: faultName } : null;
}

/** Where the faults are to be found. */
export interface Places {
  readonly port: number;
  readonly notAccepted: number;
  readonly neverConnects: number;
  readonly refused: number;
}

/** What the byte logs say of the calls: by number, requests of which a byte came. */
export interface Log {
  readonly requests: readonly (readonly [number: number, requests: number])[];
  /** Bytes on connections of which no address could be read. */
  readonly strayBytes: number;
}
