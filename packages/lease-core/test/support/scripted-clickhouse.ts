import { patient } from "@holdfast-private/tests-machine";
import { ClickHouseLogLevel, createClient, type ClickHouseClient } from "@clickhouse/client";
import type { Clock } from "@holdfast/deadline-http";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

export type Operation = "head" | "claim" | "term" | "tombstone" | "schema-read" | "schema-write" | "other";

/** One request as it arrived, with the settings and parameters of its URL. */
export interface Arrival {
  readonly operation: Operation;
  readonly query: string;
  readonly settings: Readonly<Record<string, string>>;
  readonly params: Readonly<Record<string, string>>;
  /** By the clock of the test. */
  readonly at: number;
  /** The connection that it came by, counted from 1. */
  readonly connection: number;
}

/** What the server does with a request. Left out: it executes it and answers at once. */
export interface Script {
  /** Executes, and answers when this resolves. */
  readonly until?: Promise<unknown>;
  /** Executes, and never answers. */
  readonly stall?: boolean;
  /** Executes nothing. */
  readonly drop?: boolean;
  /** Answers this error, having executed nothing unless `executes`. */
  readonly error?: { readonly status: number; readonly code?: number; readonly executes?: boolean };
}

interface LeaseRow {
  readonly name: string;
  readonly term: bigint;
  readonly id: string;
  readonly holder: string;
  readonly acquiredNs: bigint;
  readonly expiresNs: bigint;
}
export interface SchemaRow {
  readonly holder: string;
  readonly acquiredMs: number;
  readonly expiresMs: number;
  readonly released: number;
}

const rank = (id: string) => id.replaceAll("-", "").slice(16) + id.replaceAll("-", "").slice(0, 16);

/**
 * An HTTP server that stands in for ClickHouse: it knows the statements of the two leases, executes them in memory, and does with each
 * request what the test says. It records what arrived, with which caps. Its clock is that of the test.
 */
export class ScriptedClickHouse {
  readonly arrivals: Arrival[] = [];
  readonly rows: LeaseRow[] = [];
  readonly schemaRows: SchemaRow[] = [];
  connections = 0;
  version = "26.7.1.1";
  script: (arrival: Arrival) => Script | undefined = () => undefined;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #numbers = new WeakMap<Socket, number>();
  #port = 0;

  private constructor(readonly clock: Clock) {
    this.#server = patient(createServer((request, response) => void this.#serve(request, response)));
    this.#server.on("connection", (socket) => {
      this.connections += 1;
      this.#sockets.add(socket);
      this.#numbers.set(socket, this.connections);
      socket.on("close", () => this.#sockets.delete(socket));
    });
  }

  static async start(clock: Clock): Promise<ScriptedClickHouse> {
    const server = new ScriptedClickHouse(clock);
    await server.listen();
    return server;
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`;
  }

  /** Starts listening, at the same port as before when there was one. */
  async listen(): Promise<void> {
    await new Promise<void>((resolve) => this.#server.listen(this.#port, "127.0.0.1", resolve));
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  /** Stops listening: connecting is refused from now on. Connections are dropped. */
  async refuse(): Promise<void> {
    const listening = this.#server.listening;
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    for (const socket of this.#sockets) socket.destroy();
    if (listening) await closed;
  }

  /** Stops listening at once; connections end by themselves. */
  notListening(): void {
    this.#server.close();
  }

  /** Connections that are open now. */
  get open(): number {
    return this.#sockets.size;
  }

  of(operation: Operation): Arrival[] {
    return this.arrivals.filter((arrival) => arrival.operation === operation);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    let body = "";
    try {
      for await (const chunk of request) body += String(chunk);
    } catch {
      return;
    }
    const url = new URL(request.url ?? "/", "http://127.0.0.1");
    const params: Record<string, string> = {};
    const settings: Record<string, string> = {};
    for (const [key, value] of url.searchParams) {
      if (key.startsWith("param_")) params[key.slice(6)] = value;
      else settings[key] = value;
    }
    const query = url.searchParams.get("query") ?? body;
    const arrival: Arrival = {
      operation: operationOf(query),
      query,
      settings,
      params,
      at: this.clock.now(),
      connection: this.#numbers.get(request.socket) ?? 0,
    };
    this.arrivals.push(arrival);
    const script = this.script(arrival) ?? {};
    const executes = script.drop !== true && (script.error === undefined || script.error.executes === true);
    const lines = executes ? this.#execute(arrival) : [];
    if (script.stall === true) return;
    await script.until;
    if (script.error !== undefined) {
      const { status, code } = script.error;
      response.statusCode = status;
      if (code !== undefined) response.setHeader("X-ClickHouse-Exception-Code", String(code));
      response.end(code === undefined ? "unavailable" : `Code: ${code}. DB::Exception: scripted failure. (SCRIPTED)`);
      return;
    }
    response.setHeader("X-ClickHouse-Summary", "{}");
    response.end(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  }

  nowNs(): bigint {
    return BigInt(Math.round(this.clock.wallMs() * 1e6));
  }

  #execute({ operation, params, query }: Arrival): object[] {
    const name = params["name"] ?? "";
    switch (operation) {
      case "head": {
        const terms = this.rows.filter((row) => row.name === name).map((row) => row.term);
        const term = terms.reduce((newest, one) => (one > newest ? one : newest), 0n);
        return this.#leases(name, term).map((lease) => ({
          head_term: String(term),
          ...lease,
          now_ns: String(this.nowNs()),
        }));
      }
      case "term":
        return this.#leases(name, BigInt(params["term"] ?? "0"));
      case "claim":
      case "tombstone": {
        const acquiredNs = this.nowNs();
        this.rows.push({
          name,
          term: BigInt(params["term"] ?? "0"),
          id: params["lease_id"] ?? "",
          holder: params["holder"] ?? "",
          acquiredNs,
          expiresNs: acquiredNs + BigInt(params["ttl_ns"] ?? "0"),
        });
        return [];
      }
      case "schema-read": {
        const row = this.schemaRows.reduce<SchemaRow | null>(
          (kept, one) => (kept === null || one.acquiredMs >= kept.acquiredMs ? one : kept),
          null,
        );
        if (row === null) return [];
        return [
          {
            holder: row.holder,
            acquired_ms: String(row.acquiredMs),
            expires_ms: String(row.expiresMs),
            released: row.released,
          },
        ];
      }
      case "schema-write":
        this.schemaRows.push({
          holder: params["holder"] ?? "",
          acquiredMs: Number(params["acquired_ms"]),
          expiresMs: Number(params["expires_ms"]),
          released: Number(params["released"]),
        });
        return [];
      case "other":
        if (query.startsWith("SELECT version()")) return [{ version: this.version }];
        return query.startsWith("EXISTS") ? [{ result: 1 }] : [];
    }
  }

  #leases(name: string, term: bigint): { id: string; held_by: string; expires_ns: string }[] {
    const least = new Map<string, LeaseRow>();
    for (const row of this.rows) {
      if (row.name !== name || row.term !== term) continue;
      const known = least.get(row.id);
      if (known === undefined || row.expiresNs < known.expiresNs) least.set(row.id, row);
    }
    return [...least.values()]
      .sort((a, b) => (rank(a.id) < rank(b.id) ? 1 : -1))
      .map((row) => ({ id: row.id, held_by: row.holder, expires_ns: String(row.expiresNs) }));
  }
}

function operationOf(query: string): Operation {
  if (query.startsWith("SELECT toString(term)")) return "head";
  if (query.startsWith("SELECT toString(lease_id)")) return "term";
  if (query.startsWith("SELECT holder,")) return "schema-read";
  if (!query.startsWith("INSERT")) return "other";
  if (query.includes("(lock_name,")) return "schema-write";
  return query.includes("{ttl_ns:UInt64}") ? "claim" : "tombstone";
}

/** Something to answer at the test's word. */
export function gate(): { readonly until: Promise<void>; open(): void } {
  let open = (): void => undefined;
  const until = new Promise<void>((resolve) => (open = resolve));
  return { until, open };
}

/** A client of its own for one test, with one connection, a limit of its own that ends hangs only, and without the vendor's log on stderr. */
export function quietClient(url: string, o: { keepAlive?: boolean } = {}): ClickHouseClient {
  return createClient({
    url,
    max_open_connections: 1,
    request_timeout: 600_000,
    keep_alive: { enabled: o.keepAlive ?? true },
    log: { level: ClickHouseLogLevel.OFF },
  });
}
