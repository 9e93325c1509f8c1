import { within } from "@holdfast/deadline-http";
import type { SchemaLeaseOptions } from "@holdfast/lease-core";
import type { SchemaApplier } from "../checkers/schema-appliers.js";
import type { Network } from "./network.js";
import { between } from "./prng.js";
import type { SchemaRow, SchemaTable } from "./schema-table.js";

interface Asked {
  readonly query_params: Readonly<Record<string, string | number>>;
}

const nothing = (): never => {
  throw new Error("the simulator goes by the public methods of the client");
};
/** What `bind` of the product looks for in a client. Below the public methods there is nothing here. */
const inner = {
  connection: { query: nothing, exec: nothing, command: nothing, insert: nothing, ping: nothing, close: nothing },
  connectionParams: { request_timeout: 60_000 },
  jsonHandling: { parse: JSON.parse, stringify: JSON.stringify },
  valuesEncoder: {},
};

/** The two statements of the schema lease, as one process reaches the table: by the product's machinery for a request, not by HTTP. */
export function schemaClient(
  by: SchemaApplier,
  network: Network<SchemaTable>,
  requestMs: number,
  told: { sent(row: SchemaRow): void; landed(row: SchemaRow, before: SchemaRow | null): void },
): SchemaLeaseOptions["client"] {
  const { catalog: table, random } = network;
  const bound = { name: "requestTimeoutMs", clock: by.machine };
  const request = <T>(kind: string, sent: () => void, execute: (server: number) => () => T): Promise<T> => {
    const write = kind !== "read";
    const [low, high] = write ? network.pace.insertMs : network.pace.readMs;
    const serviceMs = between(random, low, high);
    const statement = { kind, write, serviceMs, serverCapMs: Infinity, capped: false, sent, execute };
    return within(requestMs, () => network.request(by.machine, statement), bound);
  };
  const client = {
    ...inner,
    query: async () => {
      const row = await request(
        "read",
        () => undefined,
        (server) => {
          const seen = table.final(server);
          return () => seen;
        },
      );
      return { json: () => Promise.resolve(row === null ? [] : [answerOf(row)]) };
    },
    command: ({ query_params: given }: Asked) => {
      const row: SchemaRow = {
        holder: String(given["holder"]),
        acquiredMs: Number(given["acquired_ms"]),
        expiresMs: Number(given["expires_ms"]),
        released: given["released"] === 1,
      };
      return request(
        row.released ? "release" : "claim",
        () => told.sent(row),
        (server) => () => {
          const before = table.final(null);
          table.insert(row, server);
          told.landed(row, before);
        },
      );
    },
  };
  return client as unknown as SchemaLeaseOptions["client"];
}

const answerOf = (row: SchemaRow) => ({
  holder: row.holder,
  acquired_ms: String(row.acquiredMs),
  expires_ms: String(row.expiresMs),
  released: row.released ? 1 : 0,
});
