import { crc32 } from "node:zlib";
import {
  checkKey,
  checkRange,
  eachUntilAborted,
  ObjectStoreError,
  resolveRange,
  type ByteRange,
  type Call,
  type ObjectInfo,
} from "@holdfast/object-store";
import { ask, bare, corrupt, unavailable, type Client } from "./client.js";
import type { ReferenceLie } from "./lies.js";
import type { WireAnswer } from "./wire.js";

type Get = { readonly range?: ByteRange; readonly ifMatch?: string } & Call;
type Read = { bytes: Uint8Array; info: ObjectInfo };

const never: AbortSignal = new AbortController().signal;
const attemptsMax = 3;

export async function headObject(client: Client, key: string, o: Call): Promise<ObjectInfo | null> {
  const { lie } = client;
  const request = { op: "head", key } as const;
  const nullWhen: Partial<Record<ReferenceLie, (answer: WireAnswer) => boolean>> = {
    "403 on head is null": ({ status }) => status === 403,
    "503 on head is null": ({ status }) => status === 503,
    "500 on head is null": ({ status }) => status === 500,
  };
  const blind = lie === undefined ? undefined : nullWhen[lie];
  if (blind !== undefined || lie === "a reset head is null") {
    const answer = await client.wire(request).catch(() => null);
    if (answer === null || blind?.(answer) === true) return null;
  }
  const answer = await ask(client, request, lie === "a stalled head waits" ? { signal: never } : o);
  if (answer.status === 404) return null;
  return infoOf(key, answer, {
    short: lie === "an etag of head loses two letters",
    zero: lie === "no size in head is 0",
  });
}

export async function getObject(client: Client, key: string, o: Get): Promise<Read> {
  checkKey(key);
  if (o.range !== undefined) checkRange(o.range);
  let last: unknown;
  for (let attempt = 0; attempt < attemptsMax; attempt++) {
    const answer = await answerOf(client, key, o);
    try {
      return await read(client, key, o, answer);
    } catch (error) {
      if (error instanceof ObjectStoreError || o.signal.aborted) throw error;
      last = error;
    }
  }
  throw unavailable(`the body of ${JSON.stringify(key)} broke off ${attemptsMax} times`, last);
}

async function answerOf(client: Client, key: string, { range, ifMatch, signal }: Get): Promise<WireAnswer> {
  const { lie } = client;
  const asked = { ...(range === undefined ? {} : { range }), ...(ifMatch === undefined ? {} : { ifMatch }) };
  const request = { op: "get", key, ...asked } as const;
  const notFound: Partial<Record<ReferenceLie, number>> = {
    "503 on get is not found": 503,
    "403 on get is not found": 403,
  };
  const status = lie === undefined ? undefined : notFound[lie];
  const first =
    status !== undefined || lie === "a reset get is not found"
      ? await client.wire(request).catch(() => null)
      : undefined;
  if (first === null || (first !== undefined && first.status === status)) throw absent(key);
  if (lie === "200 on get is the object" || lie === "500 on get is nothing") {
    const answer = await client.wire(request);
    if (answer.error !== undefined && answer.status === 200)
      return { ...answer, size: answer.length ?? 0, etag: '"x"' };
    if (answer.status === 500) return { status: 200, size: 0, length: 0, etag: '"x"' };
  }
  const answer = await ask(client, request, { signal: lie === "a stalled get waits" ? never : signal });
  if (answer.status === 404) throw absent(key);
  return answer;
}

const absent = (key: string): ObjectStoreError =>
  new ObjectStoreError("NOT_FOUND", `nothing is at ${JSON.stringify(key)}`);

async function read(client: Client, key: string, o: Get, answer: WireAnswer): Promise<Read> {
  const { lie } = client;
  const info = infoOf(key, answer, {
    short: lie === "an etag of get loses two letters",
    zero: lie === "no size in get is 0",
  });
  if (o.ifMatch !== undefined && o.ifMatch !== info.etag && lie !== "a get trusts the condition") {
    throw new ObjectStoreError("PRECONDITION_FAILED", `${JSON.stringify(key)} has etag ${info.etag}, not ${o.ifMatch}`);
  }
  checkAnswered(lie, o.range, answer, info.size);
  const length = expectedLength(lie, o.range, answer);
  const bytes = await bodyOf(client, answer, length, o);
  if (answer.checksum !== undefined && answer.checksum !== crc32(bytes) && lie !== "no checksum is looked at") {
    if (bytes.length === length) throw corrupt(`the checksum of ${JSON.stringify(key)} does not fit`);
  }
  return { bytes, info };
}

/** The range that came must be the one that was asked for. */
function checkAnswered(
  lie: ReferenceLie | undefined,
  range: ByteRange | undefined,
  answer: WireAnswer,
  size: number,
): void {
  if (range === undefined || lie === "no size in get is 0") return;
  const forgiven = "suffix" in range ? "all is taken for a suffix" : "all is taken for a range";
  if (answer.range === undefined) {
    if (lie === forgiven || lie === "200 on get is the object" || lie === "500 on get is nothing") return;
    throw corrupt("a range was asked for and the whole object came; the store, or a proxy, ignores ranges");
  }
  const { offset, length } = resolveRange(range, size);
  if (answer.range.first === offset && answer.range.last === offset + length - 1) return;
  if (lie === "another range is taken") return;
  throw corrupt(
    `bytes ${offset} to ${offset + length - 1} were asked for, ${answer.range.first} to ${answer.range.last} came`,
  );
}

/** How many bytes must come; `null`: as many as do, for the clients that do not look. */
function expectedLength(
  lie: ReferenceLie | undefined,
  range: ByteRange | undefined,
  answer: WireAnswer,
): number | null {
  const ranged = range !== undefined;
  if (answer.encoding === "gzip" && lie === (ranged ? "a decoded range is taken" : "a decoded object is taken"))
    return null;
  if (lie === (ranged ? "a short range is taken" : "a short object is taken")) return null;
  if (answer.encoding === undefined && lie === (ranged ? "a long range is taken" : "a long object is taken"))
    return null;
  return lie === "a cut body is whole" ? null : (answer.length ?? null);
}

async function bodyOf(client: Client, answer: WireAnswer, length: number | null, o: Call): Promise<Uint8Array> {
  const { lie } = client;
  const pieces: Uint8Array[] = [];
  let seen = 0;
  const signal = lie === "a stalled body waits" ? never : o.signal;
  try {
    if (answer.body !== undefined) {
      for await (const piece of eachUntilAborted(answer.body, signal)) {
        seen += piece.length;
        if (length !== null && seen > length) throw corrupt(`${length} bytes were declared and at least ${seen} came`);
        pieces.push(piece);
      }
    }
  } catch (error) {
    if (lie !== "a cut body is whole" || error instanceof ObjectStoreError) throw error;
  }
  const short = seen < (answer.length ?? 0);
  const long = seen > (answer.length ?? 0);
  const tolerated = lie?.startsWith("a short ") === true ? short : lie?.startsWith("a long ") === true ? long : true;
  if ((length !== null && seen < length) || (length === null && !tolerated && seen !== answer.length)) {
    throw corrupt(`${answer.length ?? "?"} bytes were declared and ${seen} came`);
  }
  return new Uint8Array(Buffer.concat(pieces));
}

function infoOf(
  key: string,
  answer: WireAnswer,
  lies: { readonly short: boolean; readonly zero: boolean },
): ObjectInfo {
  const { etag = "", metadata = {}, modifiedAtMs = 0 } = answer;
  if (answer.size === undefined && !lies.zero) throw corrupt(`the size of ${JSON.stringify(key)} is not told`);
  return { key, size: answer.size ?? 0, etag: lies.short ? etag.slice(1, -1) : bare(etag), metadata, modifiedAtMs };
}
