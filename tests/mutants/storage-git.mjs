// Faults of storage-git that a test must notice; the first lines of deadline-http.mjs say how.
/** Most of its tests start git in processes of their own: left to `npm run mutants -- --all`. */
export const slow = true;

const source = (file) => `packages/storage-git/src/${file}`;
const unit = (file) => ({ project: "unit", test: `packages/storage-git/test/unit/${file}.test.ts` });
const live = (file) => ({ project: "live", test: `packages/storage-git/test/live/${file}.test.ts` });

const firstIsNamed = "GB-09 GB-10 GB-11 an unconditional, then two conditional writes";
const guardDiscards = "GB-08 a guard that fails inside a batch names its own write";

/** @type {readonly import("../../scripts/mutants/lists.mjs").Mutant[]} */
export const mutants = [
  // The push and its landing.
  {
    name: "the push is forced",
    file: source("push.ts"),
    find: `const lease = \`--force-with-lease=\${o.ref}:\${o.from ?? ""}\`;`,
    replace: `const lease = "--force";`,
    ...live("batch"),
    title: "GB-05 a push onto a branch that has moved",
  },
  {
    name: "what landed is not looked for before the branch is said to have moved",
    file: source("writer.ts"),
    find: `return "contains" as const;
      return seen.commit`,
    replace: `return "moved" as const;
      return seen.commit`,
    ...live("batch"),
    title: "GB-07 a push whose answer was lost but that landed is success",
  },
  {
    name: "a commit that is found in the branch has lost",
    file: source("landing.ts"),
    find: `if (event.branch === "contains") return { s: "landed" };`,
    replace: `if (event.branch === "contains") return { s: "moved" };`,
    ...unit("landing"),
    title: "GB-07 a refused push that is found in the branch has landed",
  },
  {
    name: "a refusal is taken for a lost race without a look",
    file: source("landing.ts"),
    find: `if (event.e === "refused") return { ...state, s: "look", refusal: event.error, passing: event.passing };`,
    replace: `if (event.e === "refused") return { s: "moved" };`,
    ...unit("landing"),
    title: "a refused push is looked at before any verdict",
  },
  {
    name: "the outcome of an open push is forgotten by a refusal",
    file: source("landing.ts"),
    find: `outcome: state.outcome === "unknown" ? "unknown" : "refused" };`,
    replace: `outcome: "refused" };`,
    ...unit("landing"),
    title: "in every sequence of up to six answers",
  },
  {
    name: "the budget counts from the newest failure",
    file: source("landing.ts"),
    find: `const firstFailureAt = state.firstFailureAt ?? now;
  const { outcome }`,
    replace: `const firstFailureAt = now;
  const { outcome }`,
    ...unit("landing"),
    title: "GB-14 the budget counts from the first failure",
  },
  {
    name: "a put that is cut in its push says that nothing was written",
    file: source("land.ts"),
    find: `    o.progress.outcome = "unknown";
    return effects.push();`,
    replace: `    return effects.push();`,
    ...live("remote"),
    title: "a put whose push is cut by its signal is unknown",
  },
  {
    name: "a refusal of the server is retried",
    file: source("failure.ts"),
    find: `    "denied",
    /returned`,
    replace: `    "transient",
    /returned`,
    ...unit("failure"),
    title: "is denied: error: RPC failed; HTTP 403",
  },
  // Batches.
  {
    name: "the raw error of a branch that moved escapes from the exit",
    file: source("batch.ts"),
    find: `if (this.#firstConditional !== null) throw await this.#conflict(this.#firstConditional, end.moved);`,
    replace: `if (this.#firstConditional !== null) throw new Error("the head has moved");`,
    ...live("batch"),
    title: firstIsNamed,
  },
  {
    name: "a batch with a condition is made again on the new head",
    file: source("batch.ts"),
    find: `if (this.#firstConditional !== null) throw await this.#conflict(this.#firstConditional, end.moved);`,
    replace: ``,
    ...live("batch"),
    title: "GB-10 one conditional write makes the whole batch conditional",
  },
  {
    name: "the last conditional write is named",
    file: source("batch.ts"),
    find: `this.#firstConditional ??= path;`,
    replace: `this.#firstConditional = path;`,
    ...live("batch"),
    title: firstIsNamed,
  },
  {
    name: "the conflict carries the content that the batch began with",
    file: source("batch.ts"),
    find: `const there = at.entry(path);`,
    replace: `const there = this.#on.entry(path);`,
    ...live("batch"),
    title: "GB-11 current is null when the rival removed it",
  },
  {
    name: "an unconditional batch that lost its race fails",
    file: source("batch.ts"),
    find: `end = await this.#push(end.moved);`,
    replace: ``,
    ...live("batch"),
    title: "GB-06 an unconditional change that lost its race is made again once",
  },
  {
    name: "an unconditional batch is pushed a third time",
    file: source("batch.ts"),
    find: `end = await this.#push(end.moved);`,
    replace: `end = await this.#push(end.moved);
      if (end.moved !== undefined) end = await this.#push(end.moved);`,
    ...live("batch"),
    title: "GB-06 a second rival is an error without a third push",
  },
  {
    name: "a base is not compared when the write is made",
    file: source("batch.ts"),
    find: `if (base !== this.#on.commit) throw`,
    replace: `if (base === "") throw`,
    ...live("batch"),
    title: guardDiscards,
  },
  {
    name: "a body that catches a failed guard lands the rest",
    file: source("batch.ts"),
    find: `throw (this.#failure = await this.#conflict(path, this.#on));`,
    replace: `throw await this.#conflict(path, this.#on);`,
    ...live("batch"),
    title: guardDiscards,
  },
  {
    name: "a joined batch that failed leaves what it staged to the outer one",
    file: source("git-store.ts"),
    find: `    outer.fail(error);
`,
    replace: ``,
    ...live("batch"),
    title: "GB-12 a joined batch that fails discards the outer one",
  },
  {
    name: "a nested batch waits for the one around it",
    file: source("git-store.ts"),
    find: `if (outer !== null) return joinBatch(outer, fn);`,
    replace: `if (outer !== null) throw new Error("nested");`,
    ...live("batch"),
    title: "GB-03 the message is the subject and one line for each change",
  },
  {
    name: "a review branch begins without what is staged",
    file: source("batch.ts"),
    find: `    await this.#landStaged();
    const earlier`,
    replace: `    const earlier`,
    ...live("batch"),
    title: "GB-12 a review branch splits the batch",
  },
  {
    name: "a read in a batch does not see what is staged",
    file: source("batch.ts"),
    find: `if (staged !== undefined) return`,
    replace: `if (staged === null) return`,
    ...live("batch"),
    title: "GB-01 one commit and one push at the exit",
  },
  {
    name: "a batch that changes nothing is committed",
    file: source("batch.ts"),
    find: `if (changes.size === 0) return`,
    replace: `if (changes.size < 0) return`,
    ...live("batch"),
    title: "GB-02 the last operation on a path wins",
  },
  // Objects.
  {
    name: "two writers can make the same commit",
    file: source("message.ts"),
    find: `\${writeTrailer}: \${o.writeId}`,
    replace: `\${writeTrailer}: same`,
    ...live("store"),
    title: "two writers that put the same in the same second make two commits",
  },
  {
    name: "new commits are taken to follow on what is known",
    file: source("branch.ts"),
    find: `news.tip !== null && news.before === known.commit`,
    replace: `news.tip !== null`,
    ...live("store"),
    title: "of a merge and of a branch that was rewritten",
  },
  {
    name: "a put of the same bytes has the etag of the one before",
    file: source("history.ts"),
    find: `const paths = [...kept.keys()];`,
    replace: `const paths: string[] = [];`,
    ...live("store"),
    title: "differ after every write of an object, also of the same bytes",
  },
  {
    name: "a symbolic link is read as an object",
    file: source("snapshot.ts"),
    find: `if (entry !== null && entry.kind !== "file") throw notAFile(entry);`,
    replace: ``,
    ...live("store"),
    title: "a symbolic link and a submodule are refused",
  },
  {
    name: "names are not looked at again on a new head",
    file: source("writer.ts"),
    find: `    on.checkChanges(changes);
`,
    replace: ``,
    ...live("store"),
    title: "a name that clashes with what another writer has added meanwhile",
  },
  {
    name: "only .git itself is git's own",
    file: source("paths.ts"),
    find: `part.replace(ignoredByHfs, "").toLowerCase()`,
    replace: `part`,
    ...unit("paths"),
    title: "is git's own in capitals",
  },
  {
    name: "case does not matter for names",
    file: source("paths.ts"),
    find: `return path.normalize("NFD").toUpperCase().toLowerCase().normalize("NFC");`,
    replace: `return path;`,
    ...unit("paths"),
    title: "a folder in other capitals",
  },
  // Processes.
  {
    name: "git's children are left running",
    file: source("process.ts"),
    find: `process.kill(-pid, signal);`,
    replace: `process.kill(pid, "SIGKILL");`,
    ...live("remote"),
    title: "a call ends by its signal or the deadline in force",
  },
  {
    name: "git reads the caller's settings",
    file: source("environment.ts"),
    find: `    GIT_CONFIG_GLOBAL: devNull,
`,
    replace: `    ...(parent["GIT_CONFIG_GLOBAL"] === undefined ? {} : { GIT_CONFIG_GLOBAL: parent["GIT_CONFIG_GLOBAL"] }),
`,
    ...live("store"),
    title: "gets no settings, hooks or variables of the machine or the caller",
  },
  {
    name: "what a server repeats of the credentials is shown",
    file: source("git.ts"),
    find: `shortened(redacted(text, secret));`,
    replace: `shortened(text);`,
    ...live("remote"),
    title: "GB-14 credentials are in no argument, no error and no process list",
  },
  {
    name: "the clone keeps the lock files of a git that was cut short",
    file: source("clone.ts"),
    find: `if (name.endsWith(".lock")) await rm`,
    replace: `if (name.endsWith(".none")) await rm`,
    ...live("store"),
    title: "of a call that was cut short is used on",
  },
  {
    name: "the lock files of a killed git on the remote stay",
    file: source("dead-lock.ts"),
    find: `const names = [\`\${ref}.lock\`, "HEAD.lock"];`,
    replace: `const names = [\`\${ref}.lock\`];`,
    ...live("crash"),
    title: "while the remote holds the lock of the branch",
  },
  {
    name: "a lock file that may be of a living git is removed",
    file: source("dead-lock.ts"),
    find: `s.clock.wallMs() - found.mtimeMs < deadLockMs`,
    replace: `found.mtimeMs < 0`,
    ...live("crash"),
    title: "while the remote holds the lock of the branch",
  },
  {
    name: "what killed stores have left stays",
    file: source("clone.ts"),
    find: `    await this.#sweep();
`,
    replace: ``,
    ...live("store"),
    title: "of a killed store is removed when it is old",
  },
];
