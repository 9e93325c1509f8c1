// A writer in a process of its own: `writer.ts`, one JSON command a line on standard input, one JSON answer a line on standard output.
import { createInterface } from "node:readline";
import { gitStore, type GitBatch, type GitStore, type GitStoreOptions } from "@holdfast/storage-git";
import type { Answer, Command, Step } from "./writers.js";

const { signal } = new AbortController();
const stores = new Map<string, GitStore>();
/** Gates that the test has opened, or is waited for to open. */
const gates = new Map<string, () => void>();
const opened = new Set<string>();
const say = (answer: object): void => void process.stdout.write(`${JSON.stringify(answer)}\n`);
const textOf = (bytes: Uint8Array | null): string | null => (bytes === null ? null : Buffer.from(bytes).toString());

function storeOf(options: GitStoreOptions): GitStore {
  const name = JSON.stringify(options);
  const store = stores.get(name) ?? gitStore(options);
  stores.set(name, store);
  return store;
}

/** Says that the gate is reached, and goes on when the test opens it. */
function gate(name: string): Promise<void> {
  say({ gate: name });
  if (opened.delete(name)) return Promise.resolve();
  return new Promise((resolve) => void gates.set(name, resolve));
}

const baseOf = (base: string | null | undefined, batch: GitBatch): { baseRevision?: string | null } =>
  base === undefined ? {} : { baseRevision: base === "HEAD" ? batch.revision : base };

async function perform(store: GitStore, batch: GitBatch, step: Step): Promise<unknown> {
  if ("gate" in step) return gate(step.gate);
  if ("throw" in step) throw new Error(step.throw);
  if ("read" in step) return textOf(await batch.read(step.read));
  if ("list" in step) return batch.list(step.list);
  if ("batch" in step) {
    const inner = store.batch(step.batch, (joined) => all(store, joined, step.steps), { signal });
    if (step.caught !== true) return (await inner).value;
    return inner.then(
      ({ value }) => value,
      (error: unknown) => `caught ${String(error)}`,
    );
  }
  const { message, branch } = step;
  const o = {
    ...baseOf(step.base, batch),
    ...(message === undefined ? {} : { message }),
    ...(branch === undefined ? {} : { branch }),
  };
  const change = "write" in step ? batch.write(step.write, Buffer.from(step.text), o) : batch.remove(step.remove, o);
  if (step.caught !== true) return change;
  return change.catch((error: unknown) => `caught ${String(error)}`);
}

async function all(store: GitStore, batch: GitBatch, steps: readonly Step[]): Promise<unknown[]> {
  const results: unknown[] = [];
  for (const step of steps) results.push(await perform(store, batch, step));
  return results;
}

async function run(command: Command): Promise<unknown> {
  const store = storeOf(command.options);
  if (command.do === "batch")
    return store.batch(command.message, (batch) => all(store, batch, command.steps), { signal });
  if (command.do === "read") {
    const { bytes, revision } = await store.read(command.path, { signal });
    return { text: textOf(bytes), revision };
  }
  if (command.do === "put") {
    const { outcome, ...rest } = await store.put(command.path, Buffer.from(command.text), {
      mode: command.mode,
      signal,
    });
    return { outcome, etag: "etag" in rest ? rest.etag : null, error: "error" in rest ? rest.error.message : null };
  }
  const o = { signal, ...(command.base === undefined ? {} : { baseRevision: command.base }) };
  if (command.do === "write") return store.write(command.path, Buffer.from(command.text), o);
  return store.remove(command.path, o);
}

function failureOf(thrown: unknown): Answer["error"] {
  const error = thrown as Error & {
    code?: string;
    status?: number;
    path?: string;
    current?: Uint8Array | null;
    head?: string | null;
    outcome?: string;
  };
  const { code = "NONE", message, status, path, head, outcome } = error;
  const current = error.current === undefined ? undefined : textOf(error.current);
  return { name: error.name, code, message, status, path, current, head, outcome };
}

say({ ready: process.pid });
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line) as Command | { readonly open: string };
  if ("open" in command) {
    const go = gates.get(command.open);
    gates.delete(command.open);
    if (go === undefined) opened.add(command.open);
    else go();
    continue;
  }
  void run(command).then(
    (result) => say({ result }),
    (error: unknown) => say({ error: failureOf(error) }),
  );
}
for (const store of stores.values()) await store[Symbol.asyncDispose]();
process.exit(0);
