// Goal: what git says is sorted rightly, and nothing secret is repeated. Method: words of git 2.39, curl and ssh, in a table.
import { describe, expect, it } from "vitest";
import { failureError, kindOf, redacted, shortened } from "../../src/failure.js";

describe("a failure of git", () => {
  it.each([
    [
      "unreached",
      "fatal: unable to access 'http://127.0.0.1:1/x/': Failed to connect to 127.0.0.1 port 1 after 0 ms: Couldn't connect to server",
    ],
    ["unreached", "fatal: unable to access 'https://nowhere.invalid/x/': Could not resolve host: nowhere.invalid"],
    [
      "unreached",
      "ssh: connect to host 127.0.0.1 port 1: Connection refused\nfatal: Could not read from remote repository.",
    ],
    ["transient", "fatal: unable to access 'http://h/x/': The requested URL returned error: 503"],
    ["transient", "fatal: unable to access 'http://h/x/': The requested URL returned error: 429"],
    [
      "transient",
      "error: RPC failed; HTTP 502 curl 22 The requested URL returned error: 502\nfatal: the remote end hung up unexpectedly",
    ],
    [
      "transient",
      "error: RPC failed; curl 52 Empty reply from server\nsend-pack: unexpected disconnect while reading sideband packet",
    ],
    ["transient", "fatal: the remote end hung up unexpectedly"],
    ["transient", "error: cannot lock ref 'refs/heads/main': Unable to create '/r/refs/heads/main.lock': File exists."],
    [
      "denied",
      "error: RPC failed; HTTP 403 curl 22 The requested URL returned error: 403\nfatal: the remote end hung up unexpectedly",
    ],
    ["denied", "fatal: could not read Username for 'http://h': terminal prompts disabled"],
    ["denied", "git@h: Permission denied (publickey).\nfatal: Could not read from remote repository."],
    ["missing", "fatal: '/none' does not appear to be a git repository\nfatal: Could not read from remote repository."],
    ["missing", "fatal: repository 'http://h/none/' not found"],
    ["other", "fatal: unable to access 'http://h/x/': The requested URL returned error: 400"],
    ["other", "fatal: bad object"],
  ])("is %s: %s", (kind, text) => {
    expect(kindOf(128, text)).toBe(kind);
  });

  it("that a signal of the machine ended is transient", () => {
    expect(kindOf(null, "")).toBe("transient");
  });

  it("GB-14 is told without credentials, in whatever spelling the remote repeats them", () => {
    const secrets = { username: "bot", password: "s3cr/et +" };
    const basic = Buffer.from("bot:s3cr/et +").toString("base64");
    const text = `no: s3cr/et + or s3cr%2Fet%20%2B or Basic ${basic} at https://bot:s3cr@host/x`;
    const clean = redacted(text, secrets);
    expect(clean).not.toMatch(/s3cr/);
    expect(clean).not.toContain(basic);
    expect(clean).toContain("https://***@host/x");
  });

  it("is one line of at most 600 characters, without hints and colours", () => {
    expect(shortened("hint: do that\nfatal: \u001b[31mno\u001b[0m\r\nremote: why\n")).toBe("fatal: no; remote: why");
    expect(shortened("x".repeat(1_000))).toHaveLength(600);
  });

  it.each([
    ["denied", "ACCESS_DENIED"],
    ["missing", "CONFIG_INVALID"],
    ["other", "UNAVAILABLE"],
  ] as const)("of kind %s is %s", (kind, code) => {
    expect(failureError(kind, "the push", "words")).toMatchObject({ code });
  });
});
