// Faults of capture-service that a test of its live tier must notice, each a rule of its start, its stop or its loop. One change of one
// source each, made while a test runs; `find` has to stand in the file exactly once. Each run starts an engine: see `slow`.
const source = (file) => `packages/capture-service/src/${file}.ts`;
const live = (file) => ({ project: "live", test: `packages/capture-service/test/live/${file}.test.ts` });

/** Not among those of `npm run mutants`; `npm run mutants -- capture-service` has them, and so has `npm run test:long -- mutants`. */
export const slow = true;

/** @type {readonly import("../../scripts/mutants/lists.mjs").Mutant[]} */
export const mutants = [
  {
    name: "a publisher that is refused the lease starts all the same",
    file: source("catalog"),
    find: `await keeper.acquire({ signal });`,
    replace: `await keeper.tryAcquire();`,
    ...live("service"),
    title: "CS-06 a second one is refused at the end of its wait",
  },
  {
    name: "the spool is opened before the lease is held",
    file: source("engine"),
    find: `const catalog = await openCatalog(settings, store.store, o.signal);`,
    replace: `const early = await openSpool({
      settings: settings.spool, newId: createIds(settings.clock, settings.random), random: settings.random ?? systemRandom,
      allowSharedFileSystem: settings.allowSharedFileSystem, clock: settings.clock, errors, files: o.files, signal: o.signal,
    });
    await early.close();
    const catalog = await openCatalog(settings, store.store, o.signal);`,
    ...live("service"),
    title: "CS-06 a second one is refused at the end of its wait",
  },
  {
    name: "an upload that the stop cut off counts as a failure",
    file: source("uploader"),
    find: `if (isAborted(signal)) cancelled += 1;
          else {`,
    replace: `{`,
    ...live("stop"),
    title: "CS-13 with stalled uploads is prompt",
  },
  {
    name: "a read that the stop cut off counts as a failure",
    file: source("owed"),
    find: `if (signal.aborted) break;`,
    replace: ``,
    ...live("stop"),
    title: "CS-13 with a stalled read of the index pass is prompt",
  },
  {
    name: "a stop in a quarantine says released",
    file: "packages/lease-core/src/keeper-step.ts",
    find: `    case "stand-down":`,
    replace: `    case "stand-down":
      if (state.phase.s === "quarantined") return moved(state, { s: "released", nextClaimAt: null }, "mutant");`,
    ...live("stop"),
    title: "CS-14 inside a quarantine writes no tombstone",
  },
  {
    name: "a publisher uploads chunk after chunk, whatever became of its lease and of what it owes",
    file: source("cycle"),
    find: `    if (!this.#held) return role !== "publisher";
    const { done, failed } = await owed.index(this.o.signal, this.o.goOn);
    if (failed) this.#failed = true;
    return done || (role !== "publisher" && !failed);
  }

  /** Asked before every chunk, the first one included: the lease may have gone while the last one was under way. */
  #mayUpload(first: boolean): boolean {
    if (this.o.signal.aborted || (!first && !this.o.goOn())) return false;
    return this.parts.role !== "publisher" || (this.#held && this.parts.owed?.size === 0);`,
    replace: `    if (this.#held) await owed.index(this.o.signal, this.o.goOn);
    return role !== "nobody" as never;
  }

  #mayUpload(first: boolean): boolean {
    return !this.o.signal.aborted && (first || this.o.goOn());`,
    ...live("beside-others"),
    title: "CS-15 checks the lease before every chunk",
  },
  {
    name: "a publisher uploads without the lease",
    file: source("cycle"),
    find: `return this.parts.keeper?.status().state === "held";`,
    replace: `return this.parts.keeper !== null;`,
    ...live("running"),
    title: "CS-16 uploads nothing new while a pack is owed",
  },
  {
    name: "a publisher uploads while a pack is owed",
    file: source("cycle"),
    find: `    return done || (role !== "publisher" && !failed);
  }

  /** Asked before every chunk, the first one included: the lease may have gone while the last one was under way. */
  #mayUpload(first: boolean): boolean {
    if (this.o.signal.aborted || (!first && !this.o.goOn())) return false;
    return this.parts.role !== "publisher" || (this.#held && this.parts.owed?.size === 0);`,
    replace: `    return done || !done;
  }

  #mayUpload(first: boolean): boolean {
    if (this.o.signal.aborted || (!first && !this.o.goOn())) return false;
    return this.parts.role !== "publisher" || this.#held;`,
    ...live("running"),
    title: "CS-16 uploads nothing new while a pack is owed",
  },
  {
    name: "a pack whose indexing failed is owed no more",
    file: source("owed"),
    find: `if (signal.aborted) break;`,
    replace: `if (signal.aborted) break;
        this.#packs.clear();`,
    ...live("running"),
    title: "CS-17 names a pack whose indexing failed",
  },
  {
    name: "the loop does not back off",
    file: source("worker"),
    find: `usualMs * 2 ** this.#streak`,
    replace: `usualMs`,
    ...live("running"),
    title: "CS-18 is asked about at doubling intervals",
  },
  {
    name: "a flush whose time is up says that all is done",
    file: source("engine"),
    find: `      await this.#until(deadline, pause);
    }
    return false;`,
    replace: `      await this.#until(deadline, pause);
    }
    return true;`,
    ...live("running"),
    title: "CS-19 returns on time under a catalog that stalls",
  },
  {
    name: "a flush waits for what stalls beyond its time",
    file: source("engine"),
    find: `const result = await this.#until(deadline, cycle);`,
    replace: `const result = await cycle;`,
    ...live("running"),
    title: "CS-19 returns on time under stalled uploads",
  },
  {
    name: "flush(0) uploads",
    file: source("cycle"),
    find: `    if (!this.o.uploads) return;
`,
    replace: ``,
    ...live("running"),
    title: "CS-20 of 0 is one cycle",
  },
  {
    name: "flush(0) indexes all that is owed",
    file: source("engine"),
    find: `goOn: () => false, uploads: false`,
    replace: `goOn: () => true, uploads: false`,
    ...live("running"),
    title: "CS-20 of 0 is one cycle",
  },
  {
    name: "flush(0) reads the spool",
    file: source("uploader"),
    find: `    const { packs, voids } = this.o.spool.shelf;
    return`,
    replace: `    const { packs, voids } = this.o.spool.shelf;
    for (const pack of packs) void this.o.spool.shelf.isIntact(pack, new AbortController().signal);
    return`,
    ...live("running"),
    title: "CS-20 of 0 is one cycle",
  },
  {
    name: "a flush reconciles",
    file: source("engine"),
    find: `const result = await this.#until(deadline, cycle);`,
    replace: `await this.#worker.reconcileIfDue();
      const result = await this.#until(deadline, cycle);`,
    ...live("running"),
    title: "CS-21 never reconciles",
  },
  {
    name: "a stop runs one more cycle",
    file: source("worker"),
    find: `    return this.#cycles.idle();`,
    replace: `    this.#cycleCount += 1;
    return this.#cycles.idle();`,
    ...live("running"),
    title: "CS-21 never reconciles",
  },
  {
    name: "a standby gives up as a publisher does",
    file: source("catalog"),
    find: `role === "standby" ? "keep-trying" : "latch"`,
    replace: `"latch"`,
    ...live("beside-others"),
    title: "CS-22 a standby uploads while another publishes",
  },
  {
    name: "a publisher never gives up",
    file: source("catalog"),
    find: `role === "standby" ? "keep-trying" : "latch"`,
    replace: `"keep-trying"`,
    ...live("beside-others"),
    title: "CS-10 a publisher that loses to another holder",
  },
  {
    name: "the reconcile interval is not the one that is configured",
    file: source("worker"),
    find: `(intervalMs > 0 && sinceMs >= intervalMs)`,
    replace: `(intervalMs > 0 && sinceMs >= 30_000)`,
    ...live("service"),
    title: "CS-23 needs no ClickHouse",
  },
  {
    name: "the status does not say until when the quarantine is",
    file: "packages/lease-core/src/keeper.ts",
    find: `if (phase.s === "quarantined") status.quarantinedUntilMs = phase.until;`,
    replace: ``,
    ...live("running"),
    title: "CS-24 is plain JSON",
  },
  {
    name: "keepers share one lock",
    file: "packages/lease-core/src/keeper-core.ts",
    find: `readonly lock = new AsyncLock();`,
    replace: `readonly lock = ((globalThis as { one?: AsyncLock }).one ??= new AsyncLock());`,
    ...live("beside-others"),
    title: "CS-25 a service with a stalled catalog delays no other one",
  },
  {
    name: "an idle service takes the lease that it gave back",
    file: source("cycle"),
    find: `return uploader.pending > 0 || (owed !== null && owed.size > 0);`,
    replace: `return true;`,
    ...live("beside-others"),
    title: "CS-26 an idle service gives the lease back",
  },
  {
    name: "three file operations at once",
    file: source("spool/gate"),
    find: `createGate(2)`,
    replace: `createGate(3)`,
    ...live("spool"),
    title: "SP-10 never has more than two operations",
  },
  {
    name: "records are admitted beyond the room of the spool",
    file: source("spool/ledger"),
    find: `if (this.#held || this.#charged + bytes + this.o.headroom > this.o.maxBytes) return false;`,
    replace: `if (this.#held) return false;`,
    ...live("spool"),
    title: "SP-09 sixteen writers at the limit",
  },
  {
    name: "the keeper waits for the disk",
    file: source("spool/gate"),
    find: `createGate(2)`,
    replace: `createGate(16)`,
    ...live("lease-survival"),
    title: "LK-26 a sick disk does not take the lease",
  },
  {
    name: "a pack whose publish was cut off is owed no more",
    file: source("owed"),
    find: `if (signal.aborted) break;`,
    replace: `if (signal.aborted) break;
        this.#packs.clear();`,
    ...live("lease-survival"),
    title: "LK-13 a catalog that is cut off",
  },
];
