// Goal: whatever three writers do in batches, with races and splits, the branch holds what a simple model says, and no other error than the documented ones is seen.
// Method: random batches, in each of which another writer may commit while the body runs; files and number of commits are read with git after each.
import { join } from "node:path";
import * as fc from "fast-check";
import { describe, expect, it } from "vitest";
import { gitStore, type GitBatch, type GitStore } from "@holdfast/storage-git";
import { bareRepository, countOf, freshFolder, gitIn } from "../support/repositories.js";

const { signal } = new AbortController();
const paths = ["a", "b", "dir/c"];
type Files = ReadonlyMap<string, string>;
type Op =
  | { readonly do: "write"; readonly path: string; readonly text: string; readonly conditional: boolean }
  | { readonly do: "remove"; readonly path: string; readonly conditional: boolean }
  | { readonly do: "review"; readonly path: string }
  /** Another writer commits one file now. */
  | { readonly do: "race"; readonly path: string; readonly text: string };
type Plan = { readonly writer: number; readonly ops: readonly Op[] };

const path = fc.constantFrom(...paths);
const text = fc.constantFrom("1", "2", "3");
const conditional = fc.boolean();
const op: fc.Arbitrary<Op> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("write" as const), path, text, conditional }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("remove" as const), path, conditional }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("review" as const), path }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("race" as const), path, text }) },
);
const plans = fc.array(fc.record({ writer: fc.nat(2), ops: fc.array(op, { maxLength: 6 }) }), {
  minLength: 1,
  maxLength: 6,
});

/** The branch, and how many commits it has. */
type Model = { files: Files; commits: number };
/** What a batch has staged; null: removed. */
type Staged = Map<string, string | null>;

const applied = (files: Files, staged: Staged): Files => {
  const next = new Map(files);
  for (const [at, content] of staged) {
    if (content === null) next.delete(at);
    else next.set(at, content);
  }
  return next;
};
const isSame = (a: Files, b: Files): boolean =>
  a.size === b.size && [...a].every(([at, content]) => b.get(at) === content);

/** What a batch is expected to come to, worked out beside it. */
class Expected {
  staged: Staged = new Map();
  first: string | null = null;
  conflict: { path: string; current: string | null } | null = null;
  on: Files;
  isMoved = false;
  constructor(private readonly model: Model) {
    this.on = model.files;
  }

  /** The exit, or a split: false when the batch has lost. */
  land(): boolean {
    const { model, staged } = this;
    if (isSame(applied(this.on, staged), this.on)) {
      this.staged = new Map();
      this.first = null;
      return true;
    }
    if (this.isMoved && this.first !== null) {
      this.conflict = { path: this.first, current: model.files.get(this.first) ?? null };
      return false;
    }
    const after = applied(model.files, staged);
    if (!isSame(after, model.files)) model.commits++;
    model.files = after;
    this.on = after;
    this.isMoved = false;
    this.staged = new Map();
    this.first = null;
    return true;
  }
}

async function runPlan(stores: readonly GitStore[], plan: Plan, model: Model, branch: () => string): Promise<void> {
  const expected = new Expected(model);
  const store = stores[plan.writer]!;
  const rival = stores[(plan.writer + 1) % 3]!;
  const over = { is: false };
  const step = async (batch: GitBatch, one: Op): Promise<void> => {
    if (one.do === "race") {
      const after = applied(model.files, new Map([[one.path, one.text]]));
      if (isSame(after, model.files)) return;
      await rival.write(one.path, Buffer.from(one.text), { signal });
      model.files = after;
      model.commits++;
      expected.isMoved = true;
      return;
    }
    if (one.do === "review") {
      if (!expected.land()) over.is = true;
      else if (expected.on.size === 0 && batch.revision === null) over.is = true;
      await batch.write(one.path, Buffer.from(`review ${branch()}`), { branch: branch() });
      return;
    }
    const base = one.conditional ? { baseRevision: batch.revision } : {};
    if (one.conditional && batch.revision !== null) expected.first ??= one.path;
    expected.staged.set(one.path, one.do === "write" ? one.text : null);
    if (one.do === "write") await batch.write(one.path, Buffer.from(one.text), base);
    else await batch.remove(one.path, base);
    const read = await batch.read(one.path);
    expect(read === null ? null : Buffer.from(read).toString()).toBe(expected.staged.get(one.path));
  };
  const work = store.batch(
    "a batch",
    async (batch) => {
      for (const one of plan.ops) await step(batch, one);
    },
    { signal },
  );
  const ended = await work.then(
    () => null,
    (error: unknown) => error as { code: string; path: string; current: Uint8Array | null },
  );
  if (!over.is) expected.land();
  if (expected.conflict !== null) {
    expect(ended).toMatchObject({ code: "CONCURRENCY_CONFLICT", status: 409, path: expected.conflict.path });
    expect(ended!.current === null ? null : Buffer.from(ended!.current).toString()).toBe(expected.conflict.current);
  } else if (over.is) expect(ended?.code).toBe("PRECONDITION_FAILED");
  else expect(ended).toBeNull();
}

describe("three writers", () => {
  it("GB-13 random batches, races and splits: the branch is what the model says, and every error is a documented one", async () => {
    let reviews = 0;
    await fc.assert(
      fc.asyncProperty(plans, async (all) => {
        const folder = await freshFolder();
        const remote = await bareRepository(folder);
        const stores = [0, 1, 2].map((n) =>
          gitStore({
            remote,
            directory: join(folder, `clones-${n}`),
            retryBudgetMs: 600_000,
            requestTimeoutMs: 600_000,
          }),
        );
        const model: Model = { files: new Map(), commits: 0 };
        try {
          for (const plan of all) {
            await runPlan(stores, plan, model, () => `review/${++reviews}`);
            expect(await countOf(remote)).toBe(model.commits);
            const tree = model.commits === 0 ? "" : await gitIn(remote, "ls-tree", "-r", "--name-only", "main");
            expect(tree.split("\n").filter((line) => line !== "")).toEqual([...model.files.keys()].sort());
            for (const [at, content] of model.files) expect(await gitIn(remote, "show", `main:${at}`)).toBe(content);
          }
        } finally {
          await Promise.all(stores.map((store) => store[Symbol.asyncDispose]()));
        }
      }),
      { numRuns: Number(process.env["HOLDFAST_GIT_RUNS"] ?? 12), endOnFailure: true },
    );
  });
});
