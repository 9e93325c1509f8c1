import { ObjectStoreError } from "@holdfast/object-store";
import type { GitCredentials } from "./options.js";

/**
 * What a failure of git means. `unreached`: no connection was made, so the remote received nothing. `transient`: a retry may succeed.
 * `denied`, `missing`, `other`: trying again does not help.
 */
export type FailureKind = "unreached" | "transient" | "denied" | "missing" | "other";

/** A git command that failed: which kind of failure, and an error for people. */
export type GitFailure = { readonly kind: FailureKind; readonly error: Error };

/**
 * Git reports failures in words, which `LC_ALL=C` keeps in one language. The first row that fits decides: refusals go before broken connections, since a
 * server that refuses often hangs up as well.
 */
const table: readonly (readonly [FailureKind, RegExp])[] = [
  // The words for a lock come first: it is held for milliseconds by a live git, and one that was left behind is dealt with elsewhere.
  ["transient", /\.lock': File exists|cannot lock ref|unable to lock|failed to update ref/i],
  [
    "denied",
    /returned error: 40[13]\b|HTTP 40[13]\b|authentication failed|could not read (?:username|password)|permission denied|access denied|host key verification failed|dubious ownership|invalid credentials/i,
  ],
  [
    "missing",
    /returned error: 404\b|HTTP 404\b|repository .*not found|does not appear to be a git repository|not a git repository|no such file or directory|does not exist/i,
  ],
  ["other", /returned error: 4(?!08|29)\d\d\b|HTTP 4(?!08|29)\d\d\b/i],
  [
    "unreached",
    /could ?n[o']t resolve host|could not resolve hostname|name or service not known|temporary failure in name resolution|failed to connect|could ?n[o']t connect|connection refused|no route to host|network is unreachable|unable to connect/i,
  ],
  [
    "transient",
    /returned error: (?:408|429|5\d\d)\b|HTTP (?:408|429|5\d\d)\b|timed out|timeout|connection reset|empty reply|early EOF|hung up|unexpected disconnect|recv failure|send failure|transfer closed|too slow|broken pipe|SSL_ERROR_SYSCALL|GnuTLS recv|RPC failed|remote failed to report status|connection closed|unexpected EOF|error in the HTTP2|GOAWAY|unpacker error/i,
  ],
];

/** Classifies a failure by git's exit code and output. A git that was killed by a signal that we did not send (out of memory, say) is transient. */
export function kindOf(code: number | null, text: string): FailureKind {
  for (const [kind, words] of table) if (words.test(text)) return kind;
  return code === null ? "transient" : "other";
}

/** Text for a message without what is secret, in every spelling in which a server may repeat it. */
export function redacted(text: string, secrets: GitCredentials | null): string {
  let clean = text.replace(/\/\/[^/\s@]*@/g, "//***@");
  if (secrets === null) return clean;
  const { username, password } = secrets;
  const basic = Buffer.from(`${username}:${password}`).toString("base64");
  for (const secret of [basic, password, encodeURIComponent(password), Buffer.from(password).toString("base64")]) {
    clean = clean.replaceAll(secret, "***");
  }
  return clean;
}

/** Git's output without hints and progress, in one line, cut at 600 characters. */
export function shortened(stderr: string): string {
  const lines = stderr
    .split(/[\r\n]+/)
    .map((line) => line.replace(/\u001b\[[0-9;]*[A-Za-z]|\p{Cc}/gu, "").trim())
    .filter((line) => line !== "" && !/^(?:hint|warning|To |Done|remote:$)/.test(line));
  const text = lines.join("; ");
  return text.length <= 600 ? text : `${text.slice(0, 599)}…`;
}

/** The error of a failure that is not tried again. */
export function failureError(kind: FailureKind, what: string, said: string): ObjectStoreError {
  const seen = said === "" ? "git printed no message" : said;
  if (kind === "denied") {
    return new ObjectStoreError("ACCESS_DENIED", `${what} was refused: ${seen}; check credentials and permissions`);
  }
  if (kind === "missing") {
    return new ObjectStoreError("CONFIG_INVALID", `${what} found no repository: ${seen}; check remote`);
  }
  return new ObjectStoreError("UNAVAILABLE", `${what} failed: ${seen}`);
}
