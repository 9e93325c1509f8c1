import { AsyncResource } from "node:async_hooks";
import { asError, ContractBrokenError, errorCode, type ProbedClause } from "./errors.js";
import { getExactly } from "./exact.js";
import { checkPrefix } from "./keys.js";
import { systemRandom } from "./prng.js";
import { throwIfAborted, untilAborted } from "./signal.js";
import type { Call, Capabilities, ObjectStore, PutOptions, PutResult } from "./store.js";
import { abortedAfter } from "./system-clock.js";
import { writeIdKey } from "./verified.js";

/** What {@link probe} takes. */
export type ProbeOptions = {
  /** Where the object of the probe may be: its key is the prefix and `holdfast-probe-…`. */
  readonly prefix: string;
  /** Numbers in [0, 1) that make the key unique, so that probes do not disturb each other; default the machine's. */
  readonly random?: () => number;
} & Call;

/** How long the clean-up after a failed probe may take; it does not end with the caller, who may be gone already. */
const cleanUpMs = 5_000;

// Made while this module is loaded, so that what runs in it belongs to no call: a client that is bound to the deadline of its caller's
// scope would otherwise refuse the clean-up exactly when the deadline has ended the probe. Who loads this module for the first time inside a
// scope (by `import()`) has it belong to that one.
const outside = new AsyncResource("HoldfastProbeCleanUp");

const first = new TextEncoder().encode("holdfast probe, first object");
const second = new TextEncoder().encode("holdfast probe, another one");

/**
 * Asks a store, once and with one small object, whether it does what it declares: writes an object, writes it again under each
 * condition that must refuse, reads a range, its metadata and its place in a listing, and deletes it. Resolves with the declared
 * capabilities, now seen to hold. About 12 to 16 requests.
 *
 * {@link ContractBrokenError} (`CONTRACT_BROKEN`) when the store answers otherwise than it declares, `clause` and message say in
 * what: above all a store that takes `create` or `ifMatch` and ignores the condition, which would lose one of two publishers' packs
 * in silence. Every error of the store itself (`ACCESS_DENIED`, `UNAVAILABLE`, …) comes through as it is; so does the signal's.
 *
 * The object is deleted whatever happens, as far as the store lets it: after a failure in its own time, 5 s at most. The signal ends the
 * probe at once, and the delete goes on behind it; a put that the signal has cut may still land after that. A signal that is
 * aborted from the start sends nothing.
 *
 * Not shown: atomicity against racing writers, durability, odd keys, large objects; that is what the conformance suite is for.
 */
export async function probe(store: ObjectStore, o: ProbeOptions): Promise<Capabilities> {
  checkPrefix(o.prefix);
  throwIfAborted(o.signal);
  if ((store.contract as number) !== 1) {
    throw new ContractBrokenError("contract", `store ${store.storeId} has contract ${store.contract}, not 1`);
  }
  const id = Math.floor((o.random ?? systemRandom)() * 2 ** 47).toString(36);
  const run = new Probe(store, `${o.prefix}holdfast-probe-${id}`, o.signal);
  try {
    await run.all();
  } catch (error) {
    // Best effort: what went wrong is the caller's concern, and the object is small and named for what it is.
    const deleted = outside.runInAsyncScope(() => cleanUp(store, run.key));
    await untilAborted(deleted, o.signal).catch(() => undefined);
    throw error;
  }
  return store.capabilities;
}

async function cleanUp(store: ObjectStore, key: string): Promise<void> {
  const bound = abortedAfter(cleanUpMs);
  try {
    await untilAborted(store.delete(key, { signal: bound.signal }), bound.signal);
  } finally {
    bound.cancel();
  }
}

class Probe {
  readonly #store: ObjectStore;
  readonly #call: Call;
  readonly key: string;

  constructor(store: ObjectStore, key: string, signal: AbortSignal) {
    this.#store = store;
    this.key = key;
    this.#call = { signal };
  }

  async all(): Promise<void> {
    const { capabilities } = this.#store;
    const written = await this.#put(first, capabilities.create ? "create" : "overwrite");
    if (written.outcome !== "created") throw this.#broken("create", `a put of a new key ended as ${said(written)}`);
    await this.#again(written.etag);
    await this.#read(written.etag);
    const etag = await this.#replace(written.etag);
    await this.#readStale(written.etag, etag);
    await this.#delete();
  }

  /** A second create must see the first object and leave it; undeclared it must not be taken at all. */
  async #again(etag: string): Promise<void> {
    const again = await this.#put(second, "create");
    if (!this.#store.capabilities.create) {
      this.#mustRefuse("create", again);
    } else if (again.outcome === "created") {
      const advice =
        "it ignores If-None-Match or its like, so two publishers would overwrite each other; use another store";
      throw this.#broken("create", `a second create of one key was "created": ${advice}`);
    } else if (again.outcome !== "exists" || again.info.etag !== etag) {
      throw this.#broken("create", `a second create of one key ended as ${said(again)}, not "exists" with its etag`);
    }
    await this.#mustHold(first, "create");
  }

  async #read(etag: string): Promise<void> {
    const info = await this.#store.head(this.key, this.#call);
    if (info?.size !== first.length || info.etag !== etag) {
      const seen = info === null ? "nothing" : `${info.size} bytes with etag ${info.etag}`;
      throw this.#broken("create", `head sees ${seen}, not the ${first.length} bytes with etag ${etag} just created`);
    }
    if (this.#store.capabilities.metadata && info.metadata[writeIdKey] !== "probe") {
      const advice = "an object of ours could not be recognised after a lost answer";
      throw this.#broken("metadata", `the metadata of the put is not in head: ${advice}`);
    }
    const bytes = await getExactly(this.#store, this.key, { offset: 9, length: 5 }, this.#call).catch(
      (error: unknown) => {
        if (errorCode(error) === "CORRUPT") throw this.#broken("range", String(error));
        throw error;
      },
    );
    if (!same(bytes, first.subarray(9, 14))) {
      throw this.#broken("range", "5 bytes from offset 9 came, and they are not those of the object");
    }
    for await (const listed of this.#store.list({ prefix: this.key, ...this.#call })) {
      if (listed.key === this.key && listed.size === first.length && listed.etag === etag) return;
    }
    throw this.#broken("list", "a listing that began after the put does not have the object with its size and etag");
  }

  /** Replaces the object under a condition when that is declared, plainly otherwise; returns the new etag. */
  async #replace(etag: string): Promise<string> {
    const { ifMatch } = this.#store.capabilities;
    const wrong = await this.#put(second, { ifMatch: "holdfast-probe-no-such-etag" });
    if (!ifMatch) {
      this.#mustRefuse("ifMatch", wrong);
    } else if (wrong.outcome === "created") {
      const advice = "it ignores If-Match or its like; use another store, or declare capabilities.ifMatch false";
      throw this.#broken("ifMatch", `a put under an etag that no object has was "created": ${advice}`);
    } else if (wrong.outcome !== "exists") {
      throw this.#broken("ifMatch", `a put under an etag that no object has ended as ${said(wrong)}, not "exists"`);
    }
    await this.#mustHold(first, "ifMatch");
    const replaced = await this.#put(second, ifMatch ? { ifMatch: etag } : "overwrite");
    if (replaced.outcome !== "created") {
      throw this.#broken("ifMatch", `replacing the object under its own etag ended as ${said(replaced)}`);
    }
    await this.#mustHold(second, "ifMatch");
    return replaced.etag;
  }

  async #readStale(stale: string, etag: string): Promise<void> {
    if (stale === etag) throw this.#broken("get ifMatch", `two objects with other bytes have one etag, ${etag}`);
    const error = await this.#store.get(this.key, { ifMatch: stale, ...this.#call }).then(
      () => null,
      (thrown: unknown) => thrown,
    );
    if (error === null) {
      throw this.#broken("get ifMatch", "a get under the etag of a replaced object was answered with the new one");
    }
    if (errorCode(error) !== "PRECONDITION_FAILED") throw asError(error);
  }

  async #delete(): Promise<void> {
    for (let i = 0; i < 2; i++) {
      await this.#store.delete(this.key, this.#call).catch((error: unknown) => {
        if (errorCode(error) !== "NOT_FOUND") throw error;
        throw this.#broken("delete", "deleting what is not there is an error, and must be success");
      });
      if ((await this.#store.head(this.key, this.#call)) !== null) {
        throw this.#broken("delete", "the object is still there after its delete was answered");
      }
    }
  }

  /** A put whose outcome is one of the three that say something; the store's own error otherwise. */
  async #put(body: Uint8Array, mode: PutOptions["mode"]): Promise<PutResult> {
    const metadata = this.#store.capabilities.metadata ? { metadata: { [writeIdKey]: "probe" } } : {};
    const result = await this.#store.put(this.key, body, { mode, ...metadata, ...this.#call });
    if (result.outcome === "unknown") throw result.error;
    const ours =
      result.outcome === "failed" && ["UNSUPPORTED", "PRECONDITION_FAILED"].includes(errorCode(result.error) ?? "");
    if (result.outcome === "failed" && !ours) throw result.error;
    return result;
  }

  #mustRefuse(clause: "create" | "ifMatch", result: PutResult): void {
    if (result.outcome === "failed" && errorCode(result.error) === "UNSUPPORTED") return;
    const advice = "a mode that is not declared must be failed with UNSUPPORTED, never done half";
    throw this.#broken("undeclared", `mode ${clause} is not declared and ended as ${said(result)}: ${advice}`);
  }

  async #mustHold(bytes: Uint8Array, clause: ProbedClause): Promise<void> {
    const there = await this.#store.get(this.key, this.#call);
    if (same(there.bytes, bytes)) return;
    throw this.#broken(clause, 'the object holds other bytes than the put that was last "created" gave it');
  }

  #broken(clause: ProbedClause, what: string): ContractBrokenError {
    return new ContractBrokenError(clause, `store ${this.#store.storeId} breaks the clause "${clause}": ${what}`);
  }
}

const said = (result: PutResult): string =>
  "error" in result ? `"${result.outcome}" (${result.error.message})` : `"${result.outcome}"`;

const same = (a: Uint8Array, b: Uint8Array): boolean =>
  a.byteLength === b.byteLength && a.every((byte, i) => byte === b[i]);
