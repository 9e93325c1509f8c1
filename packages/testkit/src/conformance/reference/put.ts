import {
  asError,
  checkPut,
  collectBody,
  ObjectStoreError,
  throwIfAborted,
  untilAborted,
  type Body,
  type Call,
  type Capabilities,
  type ObjectInfo,
  type PutOptions,
  type PutResult,
} from "@holdfast/object-store";
import { bare, unavailable, type Client } from "./client.js";
import type { ReferenceLie } from "./lies.js";
import { headObject } from "./read.js";
import type { WireAnswer, WireRequest } from "./wire.js";

type Put = { readonly key: string; readonly body: Body; readonly o: PutOptions & Call };
/** Whether a request is with the server whose answer we do not have. */
type Progress = { handed: boolean };

const attemptsMax = 3;
const failed = (error: Error): PutResult => ({ outcome: "failed", error });
const unknown = (error: Error): PutResult => ({ outcome: "unknown", error });

export async function putObject(client: Client, put: Put, capabilities: Capabilities): Promise<PutResult> {
  const progress: Progress = { handed: false };
  const { signal } = put.o;
  try {
    checkPut(put.key, put.body, put.o, capabilities);
    throwIfAborted(signal);
    const work = attempts(client, put, progress);
    return await (client.lie === "a stalled put waits" ? work : untilAborted(work, signal));
  } catch (error) {
    const certain = !progress.handed || client.lie === "a stalled put is failed";
    return certain ? failed(asError(error)) : unknown(asError(error));
  }
}

async function attempts(client: Client, put: Put, progress: Progress): Promise<PutResult> {
  const { lie } = client;
  const early = await lookedFirst(client, put);
  if (early !== null) return early;
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const again = attempt > 0;
    const bytes = again && lie === "a retry sends nothing" ? new Uint8Array(0) : await collectBody(put.body, put.o);
    throwIfAborted(put.o.signal);
    progress.handed = true;
    let answer: WireAnswer;
    try {
      answer = await client.wire(requestOf(client, put, bytes, again));
    } catch (error) {
      return lost(client, put, unavailable("the connection was reset before an answer came", error), bytes);
    }
    progress.handed = false;
    if (answer.status === 409 && lie === "409 is created") return { outcome: "created", etag: "made-up" };
    if (answer.status === 503 && lie === "503 on put is created") return { outcome: "created", etag: "made-up" };
    if (answer.status === 409 || answer.status === 503) {
      const early = earlyLie(client, put, answer);
      if (early !== null) return early;
      continue;
    }
    return ended(client, put, answer);
  }
  return failed(unavailable(`the store answered busy ${attemptsMax} times; nothing was written`));
}

function requestOf(client: Client, { key, o }: Put, body: Uint8Array, again: boolean): WireRequest {
  const { lie } = client;
  const { mode, metadata } = o;
  const create = mode === "create" && !(again && lie === "a retry forgets create");
  const ifMatch = typeof mode === "object" && !(again && lie === "a retry forgets ifMatch") ? mode.ifMatch : undefined;
  return {
    op: "put",
    key,
    body,
    ...(metadata === undefined ? {} : { metadata }),
    ...(create ? { createOnly: true } : {}),
    ...(ifMatch === undefined ? {} : { ifMatch }),
  };
}

/** Lying clients that emulate a condition by a look, which no server ever sees. */
async function lookedFirst(client: Client, { key, o }: Put): Promise<PutResult | null> {
  const { lie } = client;
  if (lie === "create looks first" && o.mode === "create") {
    const info = await headObject(client, key, o);
    if (info !== null) return { outcome: "exists", info };
  }
  if (lie === "ifMatch looks first" && typeof o.mode === "object") {
    const info = await headObject(client, key, o);
    if (info !== null && info.etag !== o.mode.ifMatch) return { outcome: "exists", info };
  }
  if (lie === "a lost key is taken for good" && lostKeys.get(client)?.has(key) === true) return madeUp(key);
  return null;
}

/** For the lie of that name: what each client believes to be taken. */
const lostKeys = new WeakMap<Client, Set<string>>();

const madeUp = (key: string): PutResult => {
  const info: ObjectInfo = { key, size: 0, etag: "made-up", metadata: {}, modifiedAtMs: 0 };
  return { outcome: "exists", info };
};

type Lost = { readonly client: Client; readonly put: Put; readonly error: Error; readonly bytes: Uint8Array };

/** What a lying client makes of a put without an answer; `null`: the truth. */
const lostLies: { readonly [L in ReferenceLie]?: (lost: Lost) => Promise<PutResult | null> | PutResult | null } = {
  "a lost create is failed": ({ put, error }) => (put.o.mode === "create" ? failed(error) : null),
  "a lost overwrite is failed": ({ put, error }) => (put.o.mode === "overwrite" ? failed(error) : null),
  "a lost replacement is refused": ({ put }) =>
    typeof put.o.mode === "object" ? failed(new ObjectStoreError("PRECONDITION_FAILED", "the etag changed")) : null,
  "a lost create is created": ({ put }) => (put.o.mode === "create" ? { outcome: "created", etag: "made-up" } : null),
  "a lost create is retried and is another's": async ({ client, put, bytes }) => {
    const answer = await client.wire(requestOf(client, put, bytes, false));
    const info = await headObject(client, put.key, put.o);
    return answer.status === 412 && info !== null ? { outcome: "exists", info: { ...info, metadata: {} } } : null;
  },
  "a lost create with nothing there is failed": async ({ client, put, error }) =>
    (await headObject(client, put.key, put.o)) === null ? failed(error) : null,
  "a lost create is sent again as an overwrite": async ({ client, put, bytes }) =>
    ended(client, put, await client.wire({ op: "put", key: put.key, body: bytes })),
  "a lost key is taken for good": ({ client, put }) => {
    lostKeys.set(client, (lostKeys.get(client) ?? new Set()).add(put.key));
    return null;
  },
};

/** No answer: the honest client says so, and leaves it to a look with the write id. */
async function lost(client: Client, put: Put, error: Error, bytes: Uint8Array): Promise<PutResult> {
  const lie = client.lie === undefined ? undefined : lostLies[client.lie];
  return (await lie?.({ client, put, error, bytes })) ?? unknown(error);
}

function earlyLie({ lie }: Client, { key, o }: Put, { status }: WireAnswer): PutResult | null {
  const replaces = typeof o.mode === "object";
  if (status === 409 && !replaces && lie === "409 is exists") return madeUp(key);
  if (status === 409 && replaces && lie === "409 on ifMatch is exists") return madeUp(key);
  if (status === 503 && lie === "503 on put is denied") return failed(new ObjectStoreError("ACCESS_DENIED", "busy"));
  return null;
}

async function ended(client: Client, put: Put, answer: WireAnswer): Promise<PutResult> {
  const { lie } = client;
  const said = `the store answered ${answer.status} ${answer.error ?? ""}`;
  switch (answer.status) {
    case 200:
      return written(client, answer, said);
    case 412:
      return taken(client, put);
    case 404: {
      const condition = typeof put.o.mode === "object" || lie === "404 is a failed condition";
      const code =
        lie === "404 on ifMatch is not found" ? "NOT_FOUND" : condition ? "PRECONDITION_FAILED" : "UNAVAILABLE";
      return failed(new ObjectStoreError(code, said));
    }
    case 403:
      return failed(new ObjectStoreError(lie === "403 on put is unavailable" ? "UNAVAILABLE" : "ACCESS_DENIED", said));
    case 400:
      if (lie === "400 on put is created") return { outcome: "created", etag: "made-up" };
      return failed(new ObjectStoreError("CORRUPT", `${said}: the bytes changed on the way; try again`));
    default:
      // It may have been done before it failed.
      return lie === "500 on put is failed" ? failed(unavailable(said)) : unknown(unavailable(said));
  }
}

function written({ lie }: Client, { error, etag }: WireAnswer, said: string): PutResult {
  if (error !== undefined) {
    return lie === "200 on put is created" ? { outcome: "created", etag: "made-up" } : unknown(unavailable(said));
  }
  if (etag === undefined) {
    if (lie === "no etag is created") return { outcome: "created", etag: "" };
    return unknown(unavailable(`${said} without an etag`));
  }
  return { outcome: "created", etag: lie === "an etag of a put loses two letters" ? etag.slice(1, -1) : bare(etag) };
}

/** The condition did not hold: what is there says whose it is. */
async function taken(client: Client, { key, o }: Put): Promise<PutResult> {
  if (client.lie === "412 and no look is created") return { outcome: "created", etag: "made-up" };
  try {
    const info = await headObject(client, key, o);
    if (info !== null) return { outcome: "exists", info };
    if (client.lie === "412 is exists with nothing there") return madeUp(key);
    return failed(unavailable(`${JSON.stringify(key)} was taken when it was put and is free now; try again`));
  } catch (error) {
    return unknown(asError(error));
  }
}
