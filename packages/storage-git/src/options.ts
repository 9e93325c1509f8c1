import { isAbsolute, resolve } from "node:path";
import { systemClock, type Clock } from "@holdfast/deadline-http";
import { ObjectStoreError, systemRandom, type Capabilities } from "@holdfast/object-store";
import { maxPathBytes } from "./paths.js";
import { checkBranch, remoteOf, type Remote } from "./remote.js";

/** What the remote asks for: a user and a password or token. */
export type GitCredentials = { readonly username: string; readonly password: string };

/** What {@link gitStore} takes. */
export type GitStoreOptions = {
  /**
   * The repository that all writers push to: an absolute path, `file:///path`, `https://host/path`, `ssh://user@host/path` or `user@host:path`.
   * Without credentials.
   */
  readonly remote: string;
  /**
   * Where the store keeps its clone, in a folder of its own name that it removes when it is disposed of: a cache, made when it does not
   * exist. Any number of stores may share it. Relative paths start at the working directory.
   */
  readonly directory: string;
  /** The branch that is read and written; made by the first write when the remote does not have it. Default `main`. */
  readonly branch?: string;
  /** Names the store in catalogs; must stay the same for as long as the objects do. Default `git:REMOTE#BRANCH`. */
  readonly storeId?: string;
  /** The largest object that is written, in bytes: from 1 to 104,857,600; default 1,048,576. */
  readonly maxObjectBytes?: number;
  /** Who the commits are by. Default `holdfast` and `holdfast@localhost`. */
  readonly author?: { readonly name: string; readonly email: string };
  /** For remotes over HTTP, or a function that is called before each request that may need them: for tokens that expire. */
  readonly credentials?: GitCredentials | (() => Promise<GitCredentials>);
  /** Allows `http:`, where everyone on the way can read and change everything; default false. */
  readonly allowHttp?: boolean;
  /** The git program, 2.31 or newer. Default `git`, from the PATH. */
  readonly git?: string;
  /**
   * Variables for git beside the few that it gets (`PATH`, `TMPDIR`): `SSH_AUTH_SOCK`, `HTTPS_PROXY`, `SSL_CERT_FILE`. None that begins
   * with `GIT_` but `GIT_SSH_COMMAND`.
   */
  readonly environment?: Readonly<Record<string, string>>;
  /** The bound of one exchange with the remote, in ms; then git is ended, which counts as a transient failure. Default 30,000. */
  readonly requestTimeoutMs?: number;
  /** How long transient failures are retried, in ms from the first one; 0 retries none. Default 10,000. */
  readonly retryBudgetMs?: number;
  /**
   * How long after its last use a clone in `directory` is taken for one of a killed process and removed, in ms: a whole number of at least
   * 60,000; default 86,400,000 (a day). A store whose clone was removed makes another.
   */
  readonly cloneMaxAgeMs?: number;
  /** Bounds, pauses and the dates of commits; default the machine's clock. */
  readonly clock?: GitClock;
  /** Numbers in [0, 1) that make write ids unique and spread pauses; default the machine's randomness. */
  readonly random?: () => number;
};

/** What the store needs of a clock. */
export type GitClock = Pick<Clock, "now" | "wallMs" | "sleep" | "setTimer">;

/** The options, filled in and checked. */
export type Settings = {
  readonly remote: Remote;
  readonly branch: string;
  readonly directory: string;
  readonly storeId: string;
  readonly capabilities: Capabilities;
  readonly author: { readonly name: string; readonly email: string };
  readonly credentials: (() => Promise<GitCredentials>) | null;
  readonly git: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly requestTimeoutMs: number;
  readonly retryBudgetMs: number;
  readonly cloneMaxAgeMs: number;
  readonly clock: GitClock;
  readonly random: () => number;
};

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new ObjectStoreError("CONFIG_INVALID", what);
}

const known = new Set(
  (
    "remote directory branch storeId maxObjectBytes author credentials allowHttp git environment requestTimeoutMs retryBudgetMs " +
    "cloneMaxAgeMs clock random"
  ).split(" "),
);

/** Fills in and checks the options; `CONFIG_INVALID` names the one that cannot work. Starts nothing and makes nothing. */
export function settingsOf(o: GitStoreOptions): Settings {
  for (const name of Object.keys(o)) {
    check(known.has(name), `${JSON.stringify(name)} is not an option of gitStore; known: ${[...known].join(", ")}`);
  }
  const remote = remoteOf(o.remote, o.allowHttp === true);
  const branch = o.branch ?? "main";
  checkBranch(branch, "branch");
  check(typeof o.directory === "string" && o.directory !== "", "directory must be the path of a directory for clones");
  const directory = resolve(o.directory);
  check(directory !== remote.directory, "directory is the remote itself; give another one, which holds clones only");
  const maxObjectBytes = whole("maxObjectBytes", o.maxObjectBytes ?? 2 ** 20, 1, 100 * 2 ** 20);
  const storeId = o.storeId ?? `git:${remote.url}#${branch}`;
  check(storeId !== "", "storeId is empty; give a name for this branch that stays as long as its objects");
  return {
    remote,
    branch,
    directory,
    storeId,
    capabilities: { create: true, ifMatch: true, metadata: true, maxObjectBytes, maxKeyBytes: maxPathBytes },
    author: authorOf(o.author),
    credentials: credentialsOf(o, remote),
    git: gitOf(o.git ?? "git"),
    environment: environmentOf(o.environment ?? {}),
    requestTimeoutMs: whole("requestTimeoutMs", o.requestTimeoutMs ?? 30_000, 1, 2 ** 31),
    retryBudgetMs: whole("retryBudgetMs", o.retryBudgetMs ?? 10_000, 0, 2 ** 31),
    cloneMaxAgeMs: whole("cloneMaxAgeMs", o.cloneMaxAgeMs ?? 86_400_000, 60_000, Number.MAX_SAFE_INTEGER),
    clock: o.clock ?? systemClock,
    random: o.random ?? systemRandom,
  };
}

function whole(name: string, value: number, least: number, most: number): number {
  const good = Number.isSafeInteger(value) && value >= least && value <= most;
  check(good, `${name} is ${value}; give a whole number from ${least} to ${most}`);
  return value;
}

function authorOf(author: GitStoreOptions["author"]): { name: string; email: string } {
  const { name, email } = author ?? { name: "holdfast", email: "holdfast@localhost" };
  for (const [option, text] of Object.entries({ "author.name": name, "author.email": email })) {
    const good = typeof text === "string" && /^[^\p{Cc}<>]*[^\p{Cc}<>\s][^\p{Cc}<>]*$/u.test(text);
    check(good, `${option} is ${JSON.stringify(text)}; give text without <, > and control characters`);
  }
  return { name, email };
}

function credentialsOf(o: GitStoreOptions, remote: Remote): Settings["credentials"] {
  const { credentials } = o;
  if (credentials === undefined) return null;
  check(
    remote.protocol === "https" || remote.protocol === "http",
    `credentials are given, and a remote over ${remote.protocol} has no use for them; leave them out`,
  );
  if (typeof credentials === "function") return async () => checkCredentials(await credentials());
  checkCredentials(credentials);
  return () => Promise.resolve(credentials);
}

/** Git reads them line by line. The values are not shown. */
function checkCredentials(given: GitCredentials): GitCredentials {
  for (const name of ["username", "password"] as const) {
    const good = typeof given[name] === "string" && given[name] !== "" && !/\p{Cc}/u.test(given[name]);
    check(good, `credentials.${name} must be a non-empty string without control characters`);
  }
  return given;
}

function gitOf(git: string): string {
  const good = typeof git === "string" && git !== "" && (isAbsolute(git) || !/[/\\]/.test(git));
  check(good, `git is ${JSON.stringify(git)}; give the absolute path of a program, or its name in the PATH`);
  return git;
}

function environmentOf(environment: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  for (const [name, value] of Object.entries(environment)) {
    const ours = name.startsWith("GIT_") && name !== "GIT_SSH_COMMAND";
    check(!ours && name !== "HOME" && name !== "PATH", `environment.${name} is not taken: the store sets it itself`);
    check(typeof value === "string" && !value.includes("\0"), `environment.${name} must be a string`);
  }
  return { ...environment };
}
