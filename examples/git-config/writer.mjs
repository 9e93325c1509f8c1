// @ts-check
// One of the two writers: changes one thing in the policy, if nobody else has changed that thing since it was read.
import { gitStore } from "@holdfast/storage-git";

const [remote = "", directory = "", name = ""] = process.argv.slice(2);
const path = "capture/policy.json";
const say = (/** @type {string} */ text) => console.log(`   ${name}: ${text}`);

/** @typedef {{ sampleRate: number, drop: string[] }} Policy */
/** @typedef {{ says: string, change(policy: Policy): Policy, sameThing(a: Policy, b: Policy): boolean }} Wish */

/** @type {Record<string, Wish>} */
const wishes = {
  privacy: {
    says: "drop the header cookie",
    change: (policy) => ({ ...policy, drop: [...policy.drop, "cookie"] }),
    sameThing: (a, b) => a.drop.join() === b.drop.join(),
  },
  operations: {
    says: "sample 5 %",
    change: (policy) => ({ ...policy, sampleRate: 0.05 }),
    sameThing: (a, b) => a.sampleRate === b.sampleRate,
  },
};
const wish = wishes[name];
if (wish === undefined) throw new Error(`no such writer: ${name}`);

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
    await store.write(path, format(wish.change(before)), { baseRevision: revision, message: wish.says, signal });
    say(`wrote: ${wish.says}`);
  } catch (error) {
    const { code, current, head } = /** @type {import("@holdfast/storage-git").ConcurrencyConflictError} */ (error);
    if (code !== "CONCURRENCY_CONFLICT") throw error;
    await decide(parse(current), head);
  } finally {
    await store[Symbol.asyncDispose]();
    process.disconnect?.();
  }
}

/** The race is lost, and nothing of ours was written. What the winner wrote came with the error. */
async function decide(/** @type {Policy} */ theirs, /** @type {string | null} */ head) {
  say(`lost the race: the branch is at ${head?.slice(0, 7)} now, with ${JSON.stringify(theirs)}`);
  if (!wish.sameThing(before, theirs)) {
    say("somebody changed the same thing: it stays as it is, for a person to look at");
    return;
  }
  await store.write(path, format(wish.change(theirs)), { baseRevision: head, message: wish.says, signal });
  say(`the winner changed something else, so wrote again on top of it: ${wish.says}`);
}
