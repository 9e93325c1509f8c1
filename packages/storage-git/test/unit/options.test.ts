// Goal: options that cannot work are refused with their name and what to do, and no secret is repeated. Method: sentences in a table; nothing is started.
import { describe, expect, it } from "vitest";
import { gitEnvironment } from "../../src/environment.js";
import { settingsOf, type GitStoreOptions } from "../../src/options.js";

const good: GitStoreOptions = { remote: "/srv/policies.git", directory: "/tmp/clones" };
const refusal = (o: Record<string, unknown>): string => {
  try {
    settingsOf({ ...good, ...o });
    return "it was taken";
  } catch (error) {
    expect((error as { code?: string }).code).toBe("CONFIG_INVALID");
    return (error as Error).message;
  }
};

describe("options of gitStore", () => {
  it.each([
    ["an unknown one", { remotes: "x" }, '"remotes" is not an option of gitStore'],
    ["a relative remote", { remote: "policies.git" }, "remote is not one of"],
    ["a remote that is a command", { remote: "ext::sh -c id" }, "remote is not one of"],
    ["a remote that is a switch", { remote: "--upload-pack=id:x" }, "remote is not one of"],
    ["http", { remote: "http://h/x" }, "allowHttp: true"],
    ["another protocol", { remote: "git://h/x" }, "git:// begins"],
    ["a host that is a switch", { remote: "ssh://-oProxyCommand=id/x" }, "host"],
    ["a query", { remote: "https://h/x?y" }, "neither ? nor #"],
    ["no directory", { directory: "" }, "directory must be"],
    ["the remote as directory", { directory: "/srv/policies.git" }, "directory is the remote itself"],
    ["a branch that leads up", { branch: "a/../b" }, "branch is"],
    ["a branch that is a switch", { branch: "-x" }, "branch is"],
    ["a lock for a branch", { branch: "a.lock" }, "branch is"],
    ["no bytes", { maxObjectBytes: 0 }, "maxObjectBytes is 0"],
    ["a negative budget", { retryBudgetMs: -1 }, "retryBudgetMs is -1"],
    ["an author with a bracket", { author: { name: "a <b>", email: "c" } }, "author.name"],
    ["credentials for a directory", { credentials: { username: "u", password: "p" } }, "has no use for them"],
    ["a git below the working directory", { git: "bin/git" }, "git is"],
    ["a variable of git's", { environment: { GIT_DIR: "/x" } }, "environment.GIT_DIR"],
    ["a home", { environment: { HOME: "/x" } }, "environment.HOME"],
  ])("%s is refused", (_, o, words) => {
    const said = refusal(o);
    expect(said.replace("remote begins with git://", "git:// begins")).toContain(words);
  });

  it("GB-14 credentials in a remote, or with a newline, are refused and not repeated", () => {
    for (const o of [
      { remote: "https://bot:s3cret@h/x" },
      { remote: "ssh://bot:s3cret@h/x" },
      { remote: "https://h/x", credentials: { username: "bot", password: "s3cret\n" } },
    ]) {
      const said = refusal(o);
      expect(said).toContain("credentials");
      expect(said).not.toContain("s3cret");
    }
  });

  it.each([
    ["/srv/x.git", "file"],
    ["file:///srv/x.git", "file"],
    ["https://h/x", "https"],
    ["ssh://git@h/x", "ssh"],
    ["git@h:x/y.git", "ssh"],
  ])("the remote %s is taken", (remote, protocol) => {
    expect(settingsOf({ ...good, remote })).toMatchObject({ remote: { protocol }, storeId: `git:${remote}#main` });
  });

  it("git gets the PATH, the variables that were given and nothing else of the caller's", () => {
    const settings = settingsOf({ ...good, environment: { SSH_AUTH_SOCK: "/agent" } });
    const env = gitEnvironment(settings, "/clone", {
      PATH: "/bin",
      HOME: "/home",
      GIT_DIR: "/x",
      SECRET: "s",
      TMPDIR: "/t",
    });
    expect(env).toMatchObject({
      PATH: "/bin",
      HOME: "/clone",
      GIT_DIR: "/clone",
      SSH_AUTH_SOCK: "/agent",
      TMPDIR: "/t",
      GIT_TERMINAL_PROMPT: "0",
    });
    expect(Object.keys(env)).not.toContain("SECRET");
  });
});
