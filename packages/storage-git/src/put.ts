import { collectBody, ObjectStoreError, type Body, type PutOptions, type PutResult } from "@holdfast/object-store";
import type { Branch } from "./branch.js";
import type { KeptObject } from "./message.js";
import type { Settings } from "./options.js";
import { infoOf, type Snapshot } from "./snapshot.js";
import { writeOf, type WriteCall, type Writer, type WriteEnd } from "./writer.js";
import type { Changes } from "./commit-stream.js";

/** What puts and deletes work with. */
export type Tools = { readonly settings: Settings; readonly branch: Branch; readonly writer: Writer };

/** Writes one object: looks at the condition, commits, pushes; again on the new head when the branch has moved meanwhile. */
export async function putObject(
  t: Tools,
  o: { readonly key: string; readonly body: Body; readonly options: PutOptions },
  call: WriteCall,
): Promise<PutResult> {
  const { key, options } = o;
  const bytes = await collectBody(o.body, call);
  const { metadata = {}, contentType } = options;
  const kept: KeptObject = { key, metadata: { ...metadata }, ...(contentType === undefined ? {} : { contentType }) };
  return t.writer.lock(
    () =>
      untilLanded<PutResult>(t, call, async (on) => {
        const there = on.file(key);
        const refused = refusal(key, options.mode, on);
        if (refused !== null) return { result: refused };
        const end = await t.writer.write(on, new Map([[key, writeOf(there, bytes, kept)]]), putWords(key), call);
        return end.commit === undefined ? end : { result: { outcome: "created", etag: end.commit } };
      }),
    call.signal,
  );
}

/** Removes one object, whatever it is; nothing is committed when nothing is there. */
export async function deleteObject(t: Tools, key: string, call: WriteCall): Promise<void> {
  await t.writer.lock(
    () =>
      untilLanded<null>(t, call, async (on) => {
        if (on.file(key) === null) return { result: null };
        const changes: Changes = new Map([[key, { do: "remove" }]]);
        const end = await t.writer.write(on, changes, { subject: `delete ${key}`, lines: [] }, call);
        return end.commit === undefined ? end : { result: null };
      }),
    call.signal,
  );
}

const putWords = (key: string) => ({ subject: `put ${key}`, lines: [] });

function refusal(key: string, mode: PutOptions["mode"], on: Snapshot): PutResult | null {
  const there = on.file(key);
  if (mode === "overwrite") return null;
  if (mode === "create") return there === null ? null : { outcome: "exists", info: infoOf(there) };
  if (there === null) {
    throw new ObjectStoreError("PRECONDITION_FAILED", `nothing is at ${JSON.stringify(key)}, so it cannot be replaced`);
  }
  return there.written.commit === mode.ifMatch ? null : { outcome: "exists", info: infoOf(there) };
}

/**
 * Tries a write until it has landed. Each time that it has not, another writer's commit has; the condition is then looked at again on that commit, so
 * a write that is tried again is never one that has lost. Gives up when others have been faster for as long as the budget.
 */
async function untilLanded<T>(
  t: Tools,
  { signal }: WriteCall,
  attempt: (on: Snapshot) => Promise<{ readonly result: T } | Extract<WriteEnd, { moved: Snapshot }>>,
): Promise<T> {
  const { clock, retryBudgetMs } = t.settings;
  let on = await t.branch.settle(signal);
  const first = clock.now();
  for (;;) {
    const end = await attempt(on);
    if ("result" in end) return end.result;
    on = end.moved;
    if (clock.now() - first < retryBudgetMs) continue;
    throw new ObjectStoreError(
      "UNAVAILABLE",
      `other writers of branch ${t.settings.branch} were faster for ${retryBudgetMs} ms (retryBudgetMs); nothing was written: try again`,
    );
  }
}
