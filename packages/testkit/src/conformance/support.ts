/** Small words for the cases: calls that succeed, and what they must say when they do not. */
import assert from "node:assert/strict";
import {
  errorCode,
  type Body,
  type ObjectInfo,
  type ObjectStore,
  type PutOptions,
  type PutResult,
} from "@holdfast/object-store";

/** A signal that nobody aborts. */
export const open: AbortSignal = new AbortController().signal;

export const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);
export const textOf = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** Bytes that show a shifted, cut or repeated range; a copy, since stores may be given it. */
export function patterned(count: number): Uint8Array {
  pattern ??= Uint8Array.from({ length: 3 << 20 }, (_, i) => (i * 31 + (i >> 8) * 7 + (i >> 16)) & 0xff);
  return pattern.slice(0, count);
}
let pattern: Uint8Array | undefined;

type Seed = {
  readonly mode?: PutOptions["mode"];
  readonly metadata?: Readonly<Record<string, string>>;
  readonly contentType?: string;
};

/** A put that must be `created`; its etag. A store that declares less than `create` or metadata is asked for less. */
export async function seed(store: ObjectStore, key: string, body: Body | string, o: Seed = {}): Promise<string> {
  const { create, metadata } = store.capabilities;
  const mode = o.mode ?? (create ? "create" : "overwrite");
  const kept = metadata && o.metadata !== undefined ? { metadata: o.metadata } : {};
  const content = typeof body === "string" ? bytesOf(body) : body;
  const result = await store.put(key, content, { mode, ...kept, signal: open });
  assert.equal(result.outcome, "created", `put of ${JSON.stringify(key)}: ${said(result)}`);
  return result.etag;
}

/** Puts a text in a mode; whatever comes of it. */
export function put(
  store: ObjectStore,
  key: string,
  text: string,
  mode: PutOptions["mode"] = "create",
  more: { metadata?: Readonly<Record<string, string>>; signal?: AbortSignal } = {},
): Promise<PutResult> {
  return store.put(key, bytesOf(text), { mode, signal: open, ...more });
}

/**
 * Fails when the condition does not hold. Not `assert.ok`: without a message that reads and parses the source file of its caller, which
 * takes minutes where a loader has put it on one line.
 */
export function ok(condition: unknown, message = "the condition does not hold"): asserts condition {
  if (condition === undefined || condition === null || condition === false)
    throw new assert.AssertionError({ message });
}

/** Asserts that a put failed with nothing written, with this code. */
export function assertFailed(result: PutResult, ...codes: string[]): void {
  assert.equal(result.outcome, "failed", said(result));
  ok(codes.includes(errorCode(result.error) ?? ""), `${codes.join(" or ")}, not ${result.error.message}`);
}

/** Asserts that a put ended in one of these ways. */
export function assertOutcome(result: PutResult, ...outcomes: PutResult["outcome"][]): void {
  ok(outcomes.includes(result.outcome), `${outcomes.join(" or ")}, not ${said(result)}`);
}

/** The error that the work must reject with. */
export async function rejection(work: Promise<unknown>): Promise<unknown> {
  return work.then(
    (value) => assert.fail(`expected an error, and it answered ${JSON.stringify(value)}`),
    (thrown: unknown) => thrown,
  );
}

/** Asserts that the work rejects with one of these codes. */
export async function assertRejects(work: Promise<unknown>, ...codes: string[]): Promise<void> {
  const error = await rejection(work);
  ok(codes.includes(errorCode(error) ?? ""), `${codes.join(" or ")}, not ${String(error)}`);
}

/** Asserts that the work either answers something that `right` accepts or rejects with one of these codes. */
export async function assertRightOr<T>(work: Promise<T>, right: (value: T) => void, ...codes: string[]): Promise<void> {
  const ended = await work.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
  if ("value" in ended) right(ended.value);
  else ok(codes.includes(errorCode(ended.error) ?? ""), `${codes.join(" or ")}, not ${String(ended.error)}`);
}

export async function readText(store: ObjectStore, key: string): Promise<string> {
  return textOf((await store.get(key, { signal: open })).bytes);
}

export async function rangeText(store: ObjectStore, key: string, offset: number, length: number): Promise<string> {
  return textOf((await store.get(key, { range: { offset, length }, signal: open })).bytes);
}

export const headOf = (store: ObjectStore, key: string): Promise<ObjectInfo | null> =>
  store.head(key, { signal: open });

export const remove = (store: ObjectStore, key: string): Promise<void> => store.delete(key, { signal: open });

type Listed = { readonly prefix?: string; readonly startAfter?: string; readonly limit?: number };

/** All infos of a listing. */
export async function infosOf(store: ObjectStore, o: Listed = {}): Promise<ObjectInfo[]> {
  const infos: ObjectInfo[] = [];
  for await (const info of store.list({ prefix: "", ...o, signal: open })) {
    infos.push(info);
    ok(infos.length <= 5000, "the listing does not end");
  }
  return infos;
}

export const keysOf = async (store: ObjectStore, o: Listed = {}): Promise<string[]> =>
  (await infosOf(store, o)).map((info) => info.key);

/** Asserts that nothing is at the key: neither by head nor by get. */
export async function assertAbsent(store: ObjectStore, key: string): Promise<void> {
  assert.equal(await headOf(store, key), null);
  await assertRejects(store.get(key, { signal: open }), "NOT_FOUND");
}

/** A body that is not in memory: its pieces, then an optional end that is not a clean one. */
export function streamed(
  size: number,
  pieces: readonly Uint8Array[],
  end: () => Promise<void> = () => Promise.resolve(),
): { readonly size: number; readonly opened: () => number; open(): AsyncIterable<Uint8Array> } {
  let opened = 0;
  return {
    size,
    opened: () => opened,
    async *open() {
      opened++;
      yield* pieces;
      await end();
    },
  };
}

/** Keys in the byte order of their UTF-8, by another way than the product's. */
export function inByteOrder(keys: readonly string[]): string[] {
  return [...keys].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
}

/** How many of the puts ended so. */
export const count = (results: readonly PutResult[], outcome: PutResult["outcome"]): number =>
  results.filter((result) => result.outcome === outcome).length;

function said(result: PutResult): string {
  return "error" in result ? `${result.outcome} (${String(result.error)})` : result.outcome;
}

/** The reason that a caller with a deadline aborts with: it has a code, which a store must pass on as it came. */
export const tooLate = (): Error => Object.assign(new Error("5 ms ran out"), { code: "DEADLINE_EXCEEDED" });
