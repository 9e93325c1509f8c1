// A plain node:http client: what it sent, what it got, and how it ended.
import { Agent, request, type RequestOptions } from "node:http";
import { onTestFinished } from "vitest";

export interface Outcome {
  readonly status?: number;
  readonly headers?: Readonly<Record<string, unknown>>;
  readonly body: string;
  /** The code of the error, if the call failed; what had come of the body stands in `body`. */
  readonly error?: string;
  readonly tookMs: number;
}

export interface Call extends RequestOptions {
  readonly body?: string | Buffer;
}

export const agent = (): Agent => {
  const made = new Agent({ keepAlive: true, maxSockets: 1 });
  onTestFinished(() => made.destroy());
  return made;
};

/** Begins a call; `leave` destroys it as a client does that gives up. */
export function begin(url: string, o: Call = {}): { readonly done: Promise<Outcome>; leave(): void; reset(): void } {
  const start = performance.now();
  const { body, ...options } = o;
  const parts: Buffer[] = [];
  const text = (): string => Buffer.concat(parts).toString("latin1");
  const tookMs = (): number => performance.now() - start;
  let status: number | undefined;
  let headers = {};
  const sent = request(url, { agent: false, method: body === undefined ? "GET" : "POST", ...options });
  const done = new Promise<Outcome>((resolve) => {
    const seen = (): object => (status === undefined ? {} : { status, headers });
    const fail = (error: NodeJS.ErrnoException): void =>
      resolve({ ...seen(), body: text(), error: error.code ?? error.message, tookMs: tookMs() });
    sent.on("error", fail);
    sent.on("response", (response) => {
      status = response.statusCode;
      headers = response.headers;
      response.on("data", (bytes: Buffer) => parts.push(bytes));
      response.on("error", fail);
      response.on("end", () => resolve({ ...seen(), body: text(), tookMs: tookMs() }));
    });
  });
  if (options.headers !== undefined && "expect" in options.headers) sent.on("continue", () => sent.end(body));
  else sent.end(body);
  return { done, leave: () => sent.destroy(), reset: () => sent.socket?.resetAndDestroy() };
}

export const call = (url: string, o: Call = {}): Promise<Outcome> => begin(url, o).done;

/** Whether a call has ended by now. */
export async function pending(done: Promise<unknown>): Promise<boolean> {
  const still = Symbol();
  return (await Promise.race([done, new Promise((resolve) => setImmediate(() => resolve(still)))])) === still;
}
