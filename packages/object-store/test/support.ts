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

/** `count` bytes that show a shifted, cut or repeated range. */
export function patterned(count: number): Uint8Array {
  return Uint8Array.from({ length: count }, (_, i) => (i * 31 + (i >> 8) * 7 + (i >> 16)) & 0xff);
}

/** A put that must be `created`; its etag. */
export async function create(
  store: ObjectStore,
  key: string,
  body: Body | string,
  o: Partial<PutOptions> = {},
): Promise<string> {
  const content = typeof body === "string" ? bytesOf(body) : body;
  const result = await store.put(key, content, { mode: "create", ...o, signal: open });
  assert.equal(result.outcome, "created", `put of ${JSON.stringify(key)}: ${describe(result)}`);
  return result.etag;
}

/** Asserts that a put failed with nothing written, with this code. */
export function assertFailed(result: PutResult, code: string): void {
  assert.equal(result.outcome, "failed", describe(result));
  assert.equal(errorCode(result.error), code, result.error.message);
  assert.ok(result.error.message.length > 0);
}

/** Asserts that the work rejects with this code. */
export async function assertRejects(work: Promise<unknown>, code: string): Promise<void> {
  const error = await work.then(
    () => assert.fail(`expected ${code}, and it succeeded`),
    (thrown: unknown) => thrown,
  );
  assert.equal(errorCode(error), code, String(error));
}

export async function readText(store: ObjectStore, key: string): Promise<string> {
  return textOf((await store.get(key, { signal: open })).bytes);
}

/** Asserts that nothing is at the key, by every way of looking. */
export async function assertAbsent(store: ObjectStore, key: string): Promise<void> {
  assert.equal(await store.head(key, { signal: open }), null);
  await assertRejects(store.get(key, { signal: open }), "NOT_FOUND");
  assert.ok(!(await keysOf(store, { prefix: key })).includes(key));
}

/** All infos of a listing. */
export async function infosOf(
  store: ObjectStore,
  o: { prefix: string; startAfter?: string; limit?: number },
): Promise<ObjectInfo[]> {
  const infos: ObjectInfo[] = [];
  for await (const info of store.list({ ...o, signal: open })) infos.push(info);
  return infos;
}

export async function keysOf(
  store: ObjectStore,
  o: { prefix: string; startAfter?: string; limit?: number },
): Promise<string[]> {
  return (await infosOf(store, o)).map((info) => info.key);
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

function describe(result: PutResult): string {
  if ("error" in result) return `${result.outcome} (${String(result.error)})`;
  return result.outcome;
}
