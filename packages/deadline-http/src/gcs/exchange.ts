import { Readable } from "node:stream";
import { runCall, type Attempt } from "../call.js";
import type { Clock } from "../clock.js";
import { ConfigError, RequestError } from "../errors.js";
import { AnswerBody, GatedBody } from "./body.js";
import { classify, type RequestFacts } from "./failures.js";
import { currentOperation, means, Operation } from "./operation.js";
import { redacted, VendorError, withoutToken } from "./redact.js";
import { Send } from "./send.js";
import type { Authorized } from "./token.js";
import {
  traits,
  type Answer,
  type Done,
  type RequestOptions,
  type SendRequest,
  type StorageInternals,
} from "./vendor.js";

export interface ExchangeRules {
  readonly clock: Clock;
  readonly maxAttempts: number;
  readonly inner: StorageInternals;
  /** The vendor's own way to authorize and send a request, with its repetitions off. */
  readonly sendRequest: SendRequest;
  /** Who waits for the credentials of a request. */
  readonly waiting: WeakMap<object, Authorized>;
}

type Whole = { readonly body: unknown; readonly answer: Answer | null };

/** What takes the place of the vendor's makeAuthenticatedRequest: every request of a bound Storage goes through here. */
export function boundRequests(rules: ExchangeRules): SendRequest {
  return (options, done) => {
    if (done === undefined) return streamed(rules, options);
    if (typeof done !== "function") {
      throw new ConfigError("a bound Storage only hands out answers, not authorized requests; give a callback");
    }
    const controller = new AbortController();
    void whole(rules, options, controller.signal, done);
    return { abort: () => controller.abort() };
  };
}

async function whole(rules: ExchangeRules, options: RequestOptions, signal: AbortSignal, done: Done): Promise<void> {
  const operation = currentOperation();
  const last: { error?: unknown; body?: unknown; answer?: Answer | null } = {};
  let result: Whole;
  try {
    result = await perform(rules, options, options[traits]?.signal ?? signal, operation, (send, own) =>
      readWhole(rules, send, own, last),
    );
  } catch (error) {
    withoutToken(last.answer ?? null);
    const raw = last.error;
    // The vendor's code looks at the status, `exists()` for one; what its caller gets to see is ours.
    if (operation && error instanceof RequestError && hasStatus(raw)) {
      means(raw, error);
      done(raw, last.body, last.answer);
    } else done(error);
    return;
  }
  done(null, result.body, result.answer);
}

const hasStatus = (error: unknown): error is object =>
  typeof error === "object" && error !== null && "code" in error && typeof error.code === "number";

function readWhole(
  rules: ExchangeRules,
  send: Send,
  options: RequestOptions,
  last: { error?: unknown; body?: unknown; answer?: Answer | null },
): Promise<Whole> {
  return new Promise((resolve, reject) => {
    send.onBroken = reject;
    rules.sendRequest(options, (error, body, answer) => {
      if (send.flaw) {
        reject(redacted(send.flaw));
        return;
      }
      if (!error || (options[traits]?.wantsMore && hasStatus(error) && Reflect.get(error, "code") === 308)) {
        resolve({ body, answer: answer ?? null });
        return;
      }
      Object.assign(last, { error, body, answer });
      reject(redacted(error));
    });
  });
}

/** One request: attempts under the scopes in force, errors without secrets, the outcome that of the whole operation. */
export async function perform<T>(
  rules: ExchangeRules,
  options: RequestOptions,
  signal: AbortSignal | null,
  of: Operation | undefined,
  go: (send: Send, options: RequestOptions) => Promise<T>,
): Promise<T> {
  const operation = of ?? new Operation();
  const facts = factsOf(rules, options);
  const host = hostOf(options);
  let send: Send | null = null;
  try {
    return await runCall({
      clock: rules.clock,
      limit: null,
      signal,
      maxAttempts: rules.maxAttempts,
      attempt: (attempt) => {
        send = new Send(attempt, host, operation);
        return oneAttempt(rules, send, facts, options, go);
      },
      classify: (error, sent) => {
        if (!send) throw new Error("unreachable: an attempt that failed was begun");
        const failure = classify(error as VendorError, sent, send, facts);
        send.over(failure.outcome);
        return failure;
      },
    });
  } catch (error) {
    throw operation.raised(error as Error);
  }
}

async function oneAttempt<T>(
  rules: ExchangeRules,
  send: Send,
  facts: RequestFacts,
  options: RequestOptions,
  go: (send: Send, options: RequestOptions) => Promise<T>,
): Promise<T> {
  const own = ownCopy(send, options);
  const { customEndpoint, useAuthWithCustomEndpoint } = rules.inner;
  const anonymous = options[traits]?.anonymous ?? (customEndpoint && useAuthWithCustomEndpoint !== true);
  if (anonymous) send.presumeSent();
  rules.waiting.set(own, {
    granted: () => send.presumeSent(),
    failed: (error) => {
      send.unauthorized = true;
      // The vendor then sends the request without any: the object may be public.
      if (/Could not load the default credentials/.test(String(error))) send.presumeSent();
    },
  });
  try {
    const result = await send.run(() => go(send, own));
    if (!(result instanceof AnswerBody)) send.over(facts.read ? "refused" : "unknown");
    return result;
  } catch (error) {
    send.stop();
    throw error instanceof VendorError ? error : redacted(error);
  }
}

/** The vendor's code changes what it is given, and a body that is a stream must not be touched before its request goes out. */
function ownCopy(send: Send, options: RequestOptions): RequestOptions {
  const { json, multipart } = options;
  return {
    ...options,
    headers: { ...options.headers },
    ...(options.qs && { qs: { ...options.qs } }),
    ...(typeof json === "object" && json !== null && !Array.isArray(json) && { json: { ...json } }),
    ...(multipart && { multipart: multipart.map((part) => gated(send, options, part)) }),
    maxRetries: 0,
  };
}

function gated(send: Send, options: RequestOptions, part: { readonly body: unknown }): { readonly body: unknown } {
  if (!(part.body instanceof Readable)) return part;
  const gate = new GatedBody(part.body, (error) => {
    send.onBroken?.(error);
    send.stop(error);
  });
  send.onFailed = () => gate.destroy();
  // A request through a proxy is not seen when it goes out.
  if (usesProxy(options)) gate.open();
  else send.onOut = () => gate.open();
  return { ...part, body: gate };
}

const proxyVariables = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy"];

const usesProxy = (options: RequestOptions): boolean =>
  "proxy" in options || proxyVariables.some((name) => process.env[name]);

function factsOf(rules: ExchangeRules, options: RequestOptions): RequestFacts {
  const method = (options.method ?? "GET").toUpperCase();
  const read = method === "GET" || method === "HEAD" || options[traits]?.effectless === true;
  return { read, timeoutMs: rules.inner.timeout };
}

const hostOf = (options: RequestOptions): string => {
  const url = options.uri ?? options.url ?? "";
  return URL.canParse(url) ? new URL(url).host : "";
};

/** An answer whose body the vendor's code reads from the `response` event, as `createReadStream` does. */
function streamed(rules: ExchangeRules, options: RequestOptions): Readable {
  const out = new Readable({ read: () => undefined });
  const controller = new AbortController();
  out.once("close", () => controller.abort());
  perform(rules, options, controller.signal, currentOperation(), (send, own) => head(rules, send, own)).then(
    (body) => {
      body.once("close", () => out.destroy());
      out.emit("response", body);
    },
    (error: unknown) => out.destroy(error as Error),
  );
  return out;
}

function head(rules: ExchangeRules, send: Send, options: RequestOptions): Promise<AnswerBody & Answer> {
  return new Promise((resolve, reject) => {
    send.onBroken = reject;
    const inner = rules.sendRequest(options) as Readable;
    inner.on("error", reject);
    inner.on("response", (answer: Readable & Answer) => {
      accept(send, answer).then(resolve, reject);
    });
    inner.resume();
  });
}

async function accept(send: Send, answer: Readable & Answer): Promise<AnswerBody & Answer> {
  const { statusCode = 0, statusMessage, headers = {} } = answer;
  if (statusCode < 200 || statusCode > 299) {
    throw new VendorError((await textOf(answer)) || (statusMessage ?? ""), "ApiError", statusCode);
  }
  if (send.flaw) {
    // No one reads from this attempt anymore, so its connection ends with it.
    answer.on("error", () => undefined);
    throw redacted(send.flaw);
  }
  const body = new AnswerBody(answer, send);
  send.onBroken = (error) => body.fail(error);
  await body.filled();
  keepBound(send.attempt, send, body);
  // Without the agent of the request: the vendor's code would destroy it when a body breaks, and others use it too.
  return Object.assign(body, {
    statusCode,
    statusMessage: statusMessage ?? "",
    headers,
    request: {},
    body,
    toJSON: () => ({ headers }),
  });
}

function keepBound(attempt: Attempt, send: Send, body: AnswerBody): void {
  const held = attempt.hold((error) => body.destroy(error));
  let broke = false;
  body.translate = (error) => {
    broke = true;
    return send.operation.raised(held.failed(redacted(error)));
  };
  body.once("close", () => {
    held.release();
    if (!broke) send.over(body.readableEnded ? "refused" : "unknown");
  });
}

async function textOf(answer: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    if (size < 64 * 1024) chunks.push(chunk);
    size += chunk.length;
  }
  return Buffer.concat(chunks).toString();
}
