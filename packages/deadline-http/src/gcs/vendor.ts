import type { Storage } from "@google-cloud/storage";

/** A request as the vendor's classes describe it to each other, before and after authorization. */
export interface RequestOptions {
  readonly uri?: string;
  readonly url?: string;
  readonly method?: string;
  headers?: Record<string, string>;
  readonly qs?: Record<string, unknown>;
  readonly json?: unknown;
  readonly body?: unknown;
  readonly multipart?: readonly { readonly body: unknown }[];
  readonly maxRetries?: number;
  readonly [traits]?: Traits;
}

/** What this adapter tells itself about a request it makes; it travels with the vendor's options. */
export const traits = Symbol("holdfast.deadline.gcs");

export interface Traits {
  /** A write by its method that changes nothing anyone can see: the start of an upload session. */
  readonly effectless?: true;
  /** Made without credentials. */
  readonly anonymous?: true;
  /** 308 is the answer of an upload session that wants more, not a failure. */
  readonly wantsMore?: true;
  /** Its caller gives it up. */
  readonly signal?: AbortSignal;
}

/** An answer as the vendor hands it on: in stream mode it is the body as well. */
export interface Answer {
  readonly statusCode?: number;
  readonly statusMessage?: string;
  readonly headers?: Readonly<Record<string, string | undefined>>;
  readonly request?: { readonly headers?: Record<string, unknown> };
}

export type Done = (error: unknown, body?: unknown, answer?: Answer | null) => void;

/** Authorizes and sends one request. With `done` the whole answer is read, without it a stream tells of the answer. */
export type SendRequest = (options: RequestOptions, done?: Done) => unknown;

export interface AuthClient {
  getClient(): Promise<HeaderSource>;
}

/** Where the vendor's client gets a token; asked for headers, it fetches one when it has none that is good. */
export interface HeaderSource {
  getRequestHeaders(url?: string): Promise<object>;
}

/** The parts of a Storage below its public methods that this adapter stands on; alike in 7 and 8. */
export interface StorageInternals {
  readonly authClient: AuthClient;
  readonly makeAuthenticatedRequest: SendRequest;
  readonly retryOptions: object;
  readonly apiEndpoint: string;
  readonly customEndpoint: boolean;
  readonly useAuthWithCustomEndpoint?: boolean;
  readonly projectId: string;
  readonly timeout?: number;
  readonly universeDomain?: string;
}

export const internalsOf = (storage: Storage): StorageInternals => storage as unknown as StorageInternals;

export type StorageClass = typeof Storage;

/** The vendor's own class, below any that a user derived from it. A TypeError tells of a client of another make. */
export function vendorClassOf(storage: Storage): StorageClass {
  const inner = internalsOf(storage);
  const known =
    typeof inner.makeAuthenticatedRequest === "function" &&
    typeof inner.authClient.getClient === "function" &&
    typeof inner.apiEndpoint === "string";
  for (let at: unknown = Object.getPrototypeOf(storage); known && at !== null; at = Object.getPrototypeOf(at)) {
    const made = (at as { constructor: unknown }).constructor;
    if (typeof made === "function" && Object.hasOwn(made, "Bucket") && Object.hasOwn(made, "File")) {
      return made as StorageClass;
    }
  }
  throw new TypeError("bind() of @holdfast/deadline-http/gcs takes a Storage of @google-cloud/storage 7 or 8");
}
