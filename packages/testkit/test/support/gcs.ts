// Requests to the fake GCS, as a client without an SDK makes them.
import { gcsObjects, type FaultServer, type GcsObjects, type GcsObjectsOptions, type Script } from "@holdfast/testkit";
import { call, type Outcome } from "./client.js";
import { server } from "./pair.js";

export interface Gcs extends GcsObjects {
  readonly server: FaultServer;
  /** The address of an object's metadata; with a query: `?alt=media`. */
  at(key: string, query?: string): string;
  /** A media upload; `query` begins with `&`. */
  put(key: string, body: string | Buffer, query?: string, headers?: Record<string, string>): Promise<Outcome>;
  /** Begins a resumable upload. */
  begin(key: string, o?: { query?: string; headers?: Record<string, string>; metadata?: object }): Promise<Session>;
}

export interface Session {
  readonly began: Outcome;
  /** A PUT to its address with this Content-Range. */
  send(range: string | null, body?: string | Buffer, headers?: Record<string, string>): Promise<Outcome>;
  drop(): Promise<Outcome>;
}

export async function gcs(o: GcsObjectsOptions = {}, scripts: readonly Script[] = []): Promise<Gcs> {
  const objects = gcsObjects(o);
  const made = await server({ scripts, otherwise: objects.answer });
  const upload = `${made.url}/upload/storage/v1/b/b/o`;
  return {
    ...objects,
    server: made,
    at: (key, query = "") => `${made.url}/storage/v1/b/b/o/${encodeURIComponent(key)}${query}`,
    put: (key, body, query = "", headers = {}) =>
      call(`${upload}?uploadType=media&name=${encodeURIComponent(key)}${query}`, { method: "POST", body, headers }),
    begin: async (key, { query = "", headers = {}, metadata } = {}) => {
      const body = metadata === undefined ? "" : JSON.stringify(metadata);
      const url = `${upload}?uploadType=resumable&name=${encodeURIComponent(key)}${query}`;
      const began = await call(url, { method: "POST", body, headers });
      const address = String(began.headers?.["location"]);
      return {
        began,
        send: (range, sent = "", more = {}) => {
          const said = range === null ? more : { "content-range": range, ...more };
          return call(address, { method: "PUT", body: sent, headers: said });
        },
        drop: () => call(address, { method: "DELETE" }),
      };
    },
  };
}

/** The JSON of an answer. */
export const parsed = (outcome: Outcome): Record<string, unknown> =>
  JSON.parse(Buffer.from(outcome.body, "latin1").toString()) as Record<string, unknown>;

/** The generation that an upload was answered with. */
export const generationOf = (outcome: Outcome): string => String(parsed(outcome)["generation"]);
