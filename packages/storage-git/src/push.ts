import { ObjectStoreError } from "@holdfast/object-store";
import type { Git } from "./git.js";
import type { LandingEvent } from "./landing.js";

/** What one push came to. */
export type PushEvent = Extract<LandingEvent, { e: "pushed" | "refused" | "failed" }>;

/** One ref that is to be moved from a commit that it was seen at (null: it was not there) to another. */
export type Push = { readonly url: string; readonly ref: string; readonly from: string | null; readonly to: string };

/** Reasons of a refusal that pass by: the branch is about to move, or another git holds its lock. */
const passing = /lock|failed to update ref|incorrect old value|already exists|stale info|fetch first|non-fast-forward/i;

/**
 * Pushes once. A compare-and-swap: git compares the ref that the remote shows with `from`, and the remote compares it again when it moves it. Nothing is ever
 * forced, since `to` descends from `from`. A remote that reports a refused ref in its answer, instead of failing, is read for it.
 */
export async function push(git: Git, o: Push, signal: AbortSignal): Promise<PushEvent> {
  const lease = `--force-with-lease=${o.ref}:${o.from ?? ""}`;
  const args = ["push", "--porcelain", "--no-verify", lease, o.url, `${o.to}:${o.ref}`];
  const { out, ...rest } = await git.exchange("the push", args, { signal });
  const refused = /^!\t[^\t]*\t(.*)$/m.exec(out.stdout.toString("utf8"))?.[1];
  if (rest.failure === undefined) {
    if (refused === undefined) return { e: "pushed" };
    return { e: "refused", error: refusal(o.ref, refused), passing: passing.test(refused) };
  }
  const { failure, shown } = rest;
  if (refused === undefined || refused.startsWith("[remote failure]")) {
    const transient = failure.kind === "transient" || failure.kind === "unreached" || refused !== undefined;
    return { e: "failed", error: failure.error, transient, reached: failure.kind !== "unreached" };
  }
  const words = [shown(refused), shown(remoteWords(out.stderr))].filter((text) => text !== "").join(": ");
  return {
    e: "refused",
    error: refusal(o.ref, words),
    passing: passing.test(refused) || passing.test(remoteLock(out.stderr)),
  };
}

const refusal = (ref: string, words: string): ObjectStoreError =>
  new ObjectStoreError(
    "ACCESS_DENIED",
    `the remote did not take the push to ${ref}: ${words}; see what its hooks and rules ask for`,
  );

/** The remote's messages for the person who pushes. */
const remoteWords = (stderr: string): string =>
  stderr
    .split("\n")
    .filter((line) => line.startsWith("remote:"))
    .join("\n");

/** The remote's own complaint about a lock, which a hook's words must not be taken for. */
const remoteLock = (stderr: string): string => /^remote: error: cannot lock ref .*\.lock'/m.exec(stderr)?.[0] ?? "";
