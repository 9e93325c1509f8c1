import { isAbsolute } from "node:path";
import { ObjectStoreError } from "@holdfast/object-store";

/** A remote that was checked: what git is given, and the one protocol that it may speak. */
export type Remote = {
  readonly url: string;
  readonly protocol: "file" | "https" | "http" | "ssh";
  readonly directory: string | null;
};

const forms = "/path/to/repository.git, file:///path, https://host/path, ssh://user@host/path or user@host:path";

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new ObjectStoreError("CONFIG_INVALID", what);
}

/**
 * Checks where the repository is. Never shows a URL that may hold a password. `CONFIG_INVALID` for anything but the forms that the
 * documentation names, for credentials in the URL, and for `http:` without `allowHttp`.
 */
export function remoteOf(remote: unknown, allowHttp: boolean): Remote {
  check(typeof remote === "string" && remote !== "", `remote must be a non-empty string such as ${forms}`);
  // A newline in a URL is how options are smuggled into a request.
  check(!/[\u0000-\u001f\u007f]/.test(remote), "remote holds a control character; leave it out");
  if (isAbsolute(remote)) return { url: remote, protocol: "file", directory: remote };
  if (URL.canParse(remote) && remote.includes("://")) return remoteOfUrl(new URL(remote), remote, allowHttp);
  // Git reads "ext::command" as a program to run, so only the one form with a host before a single colon is taken.
  const scp = /^(?:[\w.-]+@)?[\w.-]+:(?!:)(?!\/\/)[^-].*$/.test(remote) && !remote.startsWith("-");
  check(scp, `remote is not one of ${forms}`);
  return { url: remote, protocol: "ssh", directory: null };
}

function remoteOfUrl(url: URL, remote: string, allowHttp: boolean): Remote {
  const { protocol, username, password, search, hash } = url;
  check(
    password === "" && (username === "" || protocol === "ssh:"),
    "remote must not hold credentials, which git would show in the process list; give them as credentials",
  );
  check(search === "" && hash === "", "remote must have neither ? nor #");
  check(!url.hostname.startsWith("-"), "remote names a host that begins with a dash");
  if (protocol === "file:") return { url: remote, protocol: "file", directory: decodeURIComponent(url.pathname) };
  if (protocol === "https:") return { url: remote, protocol: "https", directory: null };
  if (protocol === "ssh:") return { url: remote, protocol: "ssh", directory: null };
  check(protocol === "http:", `remote begins with ${protocol}//, which is not one of ${forms}`);
  check(
    allowHttp,
    "remote is http:, where everyone on the way can read and change everything; use https, or set allowHttp: true",
  );
  return { url: remote, protocol: "http", directory: null };
}

const badInBranch = /[\p{Cc} ~^:?*[\\]|\.\.|@\{|\/\/|\/\.|\.lock(?:\/|$)|^[-/.]|[/.]$|^@$/u;

/** Refuses what git does not take as the name of a branch; `what` names the option or argument, and `code` is the error's. */
export function checkBranch(branch: unknown, what: string): asserts branch is string {
  const good = typeof branch === "string" && branch !== "" && branch.length <= 200 && !badInBranch.test(branch);
  check(
    good,
    `${what} is ${JSON.stringify(branch)}, which git does not take as the name of a branch; give a name such as main or review/one`,
  );
}
