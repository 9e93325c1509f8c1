// @ts-check
// One of the two writers: changes one setting of the policy, unless another writer has changed that setting since it was read.
import { gitStore } from "@holdfast/storage-git";

const [remote = "", directory = "", name = ""] = process.argv.slice(2);
const path = "capture/policy.json";
const say = (/** @type {string} */ text) => console.log(`   ${name}: ${text}`);

/** @typedef {{ sampleRate: number, drop: string[] }} Policy */
/** @typedef {{ message: string, apply(policy: Policy): Policy, unchanged(a: Policy, b: Policy): boolean }} Edit */

/** @type {Record<string, Edit>} */
const edits = {
  privacy: {
    message: "drop the header cookie",
    apply: (policy) => ({ ...policy, drop: [...policy.drop, "cookie"] }),
    unchanged: (a, b) => a.drop.join() === b.drop.join(),
  },
  operations: {
    message: "sample 5 %",
    apply: (policy) => ({ ...policy, sampleRate: 0.05 }),
    unchanged: (a, b) => a.sampleRate === b.sampleRate,
  },
};
const edit = edits[name];
if (edit === undefined) throw new Error(`no such writer: ${name}`);

const parse = (/** @type {Uint8Array | null} */ bytes) =>
  /** @type {Policy} */ (JSON.parse(Buffer.from(bytes ?? []).toString()));
const format = (/** @type {Policy} */ policy) => Buffer.from(`${JSON.stringify(policy, null, 2)}\n`);

const store = gitStore({ remote, directory, author: { name, email: `${name}@example.com` } });
const signal = AbortSignal.timeout(120_000);

const { bytes, revision } = await store.read(path, { signal });
const before = parse(bytes);
say(`read revision ${revision?.slice(0, 7)}`);
process.once("message", write);
process.send?.("read");

async function write() {
  try {
    await store.write(path, format(edit.apply(before)), { baseRevision: revision, message: edit.message, signal });
    say(`wrote: ${edit.message}`);
  } catch (error) {
    const { code, current, head } = /** @type {import("@holdfast/storage-git").ConcurrencyConflictError} */ (error);
    if (code !== "CONCURRENCY_CONFLICT") throw error;
    await decide(parse(current), head);
  } finally {
    await store[Symbol.asyncDispose]();
    process.disconnect?.();
  }
}

/** Called when the race is lost: nothing of ours was written, and the winner's content came with the error. */
async function decide(/** @type {Policy} */ theirs, /** @type {string | null} */ head) {
  say(`lost the race: the branch is at ${head?.slice(0, 7)} now, with ${JSON.stringify(theirs)}`);
  if (!edit.unchanged(before, theirs)) {
    say("the winner changed the same setting; left it alone, a person should decide");
    return;
  }
  await store.write(path, format(edit.apply(theirs)), { baseRevision: head, message: edit.message, signal });
  say(`the winner changed something else; wrote on top of it: ${edit.message}`);
}
