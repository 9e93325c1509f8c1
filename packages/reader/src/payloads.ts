import { CanceledError, DeadlineExceededError, type Clock } from "@holdfast/deadline-http";
import { createLimiter, errorCode, getExactly, untilAborted, type ObjectStore } from "@holdfast/object-store";
import { decodePayload, payloadRange, type CaptureSchema } from "@holdfast/pack-format";
import { coalesce, windows, type RangeRequest, type Wanted } from "./ranges.js";
import { ReaderError } from "./reader-error.js";
import type { FoundRecord } from "./reader-types.js";

export type PayloadSource = { readonly store: ObjectStore; readonly clock: Clock; readonly timeoutMs: number };

const requestsAtOnce = 4;
const defaultByteLimit = 64 * 1024 * 1024;

/** Payloads in the order of the records; see Snapshot.read. */
export async function* readPayloads<S extends CaptureSchema>(
  source: PayloadSource,
  records: readonly FoundRecord<S>[],
  o: { signal?: AbortSignal; byteLimit?: number },
): AsyncGenerator<{ record: FoundRecord<S>; payload: Uint8Array }, void, undefined> {
  const { storeId } = source.store;
  const elsewhere = records.find((record) => record.pack.storeId !== storeId);
  if (elsewhere !== undefined) {
    throw new ReaderError(
      "STORE_MISMATCH",
      `record ${elsewhere.captureId} lies in store ${elsewhere.pack.storeId}, and this reader reads ${storeId}; ` +
        `open a reader with that store`,
    );
  }
  for (const run of windows(records, o.byteLimit ?? defaultByteLimit)) {
    const payloads = await readRun(source, run, o.signal);
    for (const [at, record] of run.entries()) yield { record, payload: payloads[at] ?? new Uint8Array() };
  }
}

async function readRun<S extends CaptureSchema>(
  source: PayloadSource,
  run: readonly FoundRecord<S>[],
  signal: AbortSignal | undefined,
): Promise<readonly Uint8Array[]> {
  const payloads: Uint8Array[] = [];
  const limiter = createLimiter(requestsAtOnce);
  // One failure ends the run: the requests beside it are not worth their bytes any more.
  const failed = new AbortController();
  const stop = signal === undefined ? failed.signal : AbortSignal.any([signal, failed.signal]);
  const wanted = run.map(({ pack, locator }, at): Wanted => ({ at, key: pack.key, locator }));
  const named = (at: number) => run[at]?.captureId ?? "";
  try {
    await Promise.all(
      coalesce(wanted).map((request) =>
        limiter(async () => {
          const bytes = await fetchRange(source, request, stop, named);
          const ranges = new Map<string, Uint8Array>();
          for (const each of request.wanted) {
            payloads[each.at] = await payloadOf(each, rangeOf(each, request, bytes, ranges), named(each.at));
          }
        }, stop),
      ),
    );
  } catch (error) {
    failed.abort(error);
    if (signal?.aborted === true) throw new CanceledError({ outcome: "not-sent", cause: signal.reason });
    throw error;
  }
  return payloads;
}

/** The bytes of a record's range: one and the same view for all records of a compressed block. */
function rangeOf(
  wanted: Wanted,
  request: RangeRequest,
  bytes: Uint8Array,
  ranges: Map<string, Uint8Array>,
): Uint8Array {
  const { offset, length } = payloadRange(wanted.locator);
  const name = `${String(offset)} ${String(length)}`;
  const start = offset - request.offset;
  const range = ranges.get(name) ?? bytes.subarray(start, start + length);
  ranges.set(name, range);
  return range;
}

async function payloadOf(wanted: Wanted, range: Uint8Array, captureId: string): Promise<Uint8Array> {
  try {
    return ownMemory(await decodePayload(wanted.locator, range));
  } catch (error) {
    const code = errorCode(error);
    if (code !== "PACK_CORRUPT" && code !== "PACK_TRUNCATED") throw error;
    throw corrupt(captureId, wanted.key, error);
  }
}

/** A small view would keep the whole block or request in memory for as long as its payload is kept. */
function ownMemory(payload: Uint8Array): Uint8Array {
  return payload.buffer.byteLength > 2 * payload.byteLength ? payload.slice() : payload;
}

async function fetchRange(
  source: PayloadSource,
  request: RangeRequest,
  signal: AbortSignal,
  named: (at: number) => string,
): Promise<Uint8Array> {
  const { key, offset, length } = request;
  try {
    return await bounded(source, signal, (bound) =>
      getExactly(source.store, key, { offset, length }, { signal: bound }),
    );
  } catch (error) {
    const captureId = named(request.wanted[0]?.at ?? -1);
    const message = error instanceof Error ? error.message : String(error);
    switch (errorCode(error) ?? "") {
      case "NOT_FOUND":
        throw new ReaderError(
          "RECORD_GONE",
          `record ${captureId} is in the catalog, and its object ${key} is no longer in store ${source.store.storeId}`,
          { cause: error },
        );
      case "INVALID_RANGE":
      case "CORRUPT":
        throw corrupt(captureId, key, error);
      case "CANCELED":
      case "DEADLINE_EXCEEDED":
        throw error;
      default:
        throw new ReaderError(
          "STORE_UNAVAILABLE",
          `store ${source.store.storeId} did not give ${String(length)} bytes of ${key} for record ${captureId}: ${message}; try again`,
          { cause: error },
        );
    }
  }
}

function corrupt(captureId: string, key: string, cause: unknown): ReaderError {
  const message = cause instanceof Error ? cause.message : String(cause);
  return new ReaderError(
    "RECORD_CORRUPT",
    `the bytes of record ${captureId} in ${key} are not those that were captured: ${message}; restore the object from a copy`,
    { cause },
  );
}

async function bounded<T>(
  source: PayloadSource,
  outer: AbortSignal,
  fn: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const bound = { name: "object-store call", ms: source.timeoutMs, knobs: { requestTimeoutMs: source.timeoutMs } };
  const timer = source.clock.setTimer(source.timeoutMs, () =>
    controller.abort(new DeadlineExceededError(bound, { outcome: "unknown", note: "the store did not answer" })),
  );
  const onAbort = () => controller.abort(outer.reason);
  outer.addEventListener("abort", onAbort, { once: true });
  if (outer.aborted) onAbort();
  try {
    return await untilAborted(fn(controller.signal), controller.signal);
  } finally {
    timer.cancel();
    outer.removeEventListener("abort", onAbort);
  }
}
