import { devNull } from "node:os";
import type { Settings } from "./options.js";

/** What every git of this store is started with: no settings, hooks, prompts or pagers of the machine's, and nothing of the caller's own. */
export function gitEnvironment(s: Settings, clone: string, parent: NodeJS.ProcessEnv): Record<string, string> {
  const { PATH = "/usr/bin:/bin", TMPDIR } = parent;
  return {
    PATH,
    ...(TMPDIR === undefined ? {} : { TMPDIR }),
    GIT_SSH_COMMAND: "ssh -o BatchMode=yes",
    ...s.environment,
    HOME: clone,
    XDG_CONFIG_HOME: clone,
    LC_ALL: "C",
    GIT_DIR: clone,
    GIT_CONFIG_NOSYSTEM: "1",
    GIT_CONFIG_SYSTEM: devNull,
    GIT_CONFIG_GLOBAL: devNull,
    GIT_ATTR_NOSYSTEM: "1",
    GIT_NO_REPLACE_OBJECTS: "1",
    GIT_TERMINAL_PROMPT: "0",
    GIT_ASKPASS: "",
    SSH_ASKPASS_REQUIRE: "never",
    GIT_PAGER: "cat",
    GIT_ALLOW_PROTOCOL: s.remote.protocol,
  };
}

/** Settings on the command line of every git, above those of the clone. */
export const gitSettings: readonly string[] = [
  "core.hooksPath=/dev/null",
  "core.fsmonitor=false",
  // The repository decides about names, and not the file system of the clone.
  "core.ignoreCase=false",
  "core.precomposeUnicode=false",
  "core.quotePath=false",
  "gc.auto=0",
  "maintenance.auto=false",
  "credential.helper=",
  "fetch.recurseSubmodules=false",
  "http.followRedirects=false",
  "log.showRoot=true",
  "log.showSignature=false",
  "push.gpgSign=false",
  "push.followTags=false",
  // What a killed process leaves running ends by itself.
  "http.lowSpeedLimit=1",
  "http.lowSpeedTime=60",
].flatMap((setting) => ["-c", setting]);
