// Goal: every mistake on the command line is one line and exit code 1; secrets never come out.
// Method: the whole program in this process, with optional packages that are there, absent, or broken.
import { readdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { writeWhole } from "../../src/commands/get.js";
import { oneLine } from "../../src/errors.js";
import { installedPeers, type Peers } from "../../src/peers.js";
import { run, tempDir } from "./helpers.js";

const absent = (name: string) => () =>
  Promise.reject(
    Object.assign(new Error(`Cannot find package '${name}' imported from x`), { code: "ERR_MODULE_NOT_FOUND" }),
  );
const nothingInstalled: Peers = {
  "@holdfast/storage-fs": absent("@holdfast/storage-fs"),
  "@holdfast/storage-s3": absent("@holdfast/storage-s3"),
  "@holdfast/storage-gcs": absent("@holdfast/storage-gcs"),
  "@holdfast/clickhouse-embedded": absent("@holdfast/clickhouse-embedded"),
};

describe("the command line", () => {
  it("--help and --version answer with exit code 0", async () => {
    const help = await run(["--help"]);
    expect(help).toMatchObject({ code: 0, err: "" });
    for (const name of ["demo", "status", "search", "get", "inspect"]) expect(help.out).toContain(`  ${name} `);
    expect(await run(["--version"])).toMatchObject({
      code: 0,
      out: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) as string,
    });
  });

  it.each([
    [["nonsense"], "[USAGE_INVALID] unknown command 'nonsense'"],
    [["stats"], "[USAGE_INVALID] unknown command 'stats' (Did you mean status?)"],
    [["status", "--nonsense"], "[USAGE_INVALID] unknown option '--nonsense'"],
    [["get", "some-id"], "[USAGE_INVALID] required option '-o, --output <FILE>' not specified"],
    [["inspect"], "[USAGE_INVALID] missing required argument 'PACK'"],
    [["status"], "[USAGE_INVALID] no catalog: give --catalog URL"],
    [["search", "--catalog", "http://127.0.0.1:1"], "[USAGE_INVALID] no store: give --store fs:DIR"],
    [["search", "--catalog", "http://127.0.0.1:1", "--limit", "many"], "[USAGE_INVALID] --limit many"],
    [["search", "--catalog", "http://127.0.0.1:1", "--schema", "nonsense"], "[USAGE_INVALID] --schema nonsense"],
    [
      ["status", "--config", "/no/such/file"],
      "[FILE_UNREADABLE] cannot read /no/such/file: ENOENT: no such file or directory\n",
    ],
    [["inspect", "/no/such/pack"], "[FILE_UNREADABLE] there is no file /no/such/pack"],
    [["inspect", "/"], "[FILE_UNREADABLE] / is not a file"],
    [["demo", "--records", "0"], "[USAGE_INVALID] --records 0"],
    [["demo", "--dir", "/proc/nowhere"], "[FILE_UNWRITABLE] cannot write to /proc/nowhere"],
    [["demo", "--dir", "/dev/null/below-a-file"], "[FILE_UNWRITABLE] cannot write to /dev/null/below-a-file"],
  ])("%j: one line, exit code 1", async (argv, message) => {
    const ran = await run(argv);
    expect(ran).toMatchObject({ code: 1, out: "" });
    expect(ran.err).toContain(message);
    expect(ran.err).toMatch(/^error: [^\n]+\n$/);
  });

  it.each([[["--password", "hunter2"]], [["--password=hunter2"]], [["--pass", "hunter2"]]])(
    "a password as %j is refused, not printed",
    async (flags) => {
      for (const command of [["status"], ["inspect", "some.hfpack"], ["demo"]]) {
        const ran = await run([...command, ...flags]);
        expect(ran).toMatchObject({ code: 1, out: "" });
        expect(ran.err).toMatch(/^error: \[USAGE_INVALID\] [^\n]*HOLDFAST_PASSWORD[^\n]*\n$/);
        expect(ran.err).not.toContain("hunter2");
      }
    },
  );

  it.each([["--pasword=hunter2"], ["-phunter2"], ["--secret=it's 'hunter2'"]])(
    "the value of an unknown flag is not printed: %s",
    async (flag) => {
      const ran = await run(["status", flag]);
      expect(ran.err).toMatch(/^error: \[USAGE_INVALID\] unknown option '--?[a-z]+'[^\n]*\n$/);
      expect(ran.err).not.toContain("hunter2");
    },
  );
});

// `get` renames onto its target: onto /dev/stdout it would replace the link that every other process opens.
describe("get", () => {
  it("writes onto nothing but a regular file", async () => {
    const dir = tempDir();
    symlinkSync(join(dir, "elsewhere"), join(dir, "link"));
    for (const path of ["/dev/null", join(dir, "link"), dir]) {
      await expect(writeWhole(path, new Uint8Array([1]))).rejects.toThrow(
        `[FILE_UNWRITABLE] cannot write ${path}: it is`,
      );
    }
    expect(readdirSync(dir)).toEqual(["link"]);
    await writeWhole(join(dir, "new"), new Uint8Array([1]));
    await writeWhole(join(dir, "new"), new Uint8Array([2]));
    expect([...readFileSync(join(dir, "new"))]).toEqual([2]);
  });
});

describe("optional packages", () => {
  it("absent ones are answered with one install line for all of them", async () => {
    const ran = await run(["demo"], { peers: nothingInstalled });
    expect(ran.code).toBe(1);
    expect(ran.err).toBe(
      "error: [PACKAGE_MISSING] holdfast demo needs @holdfast/clickhouse-embedded and @holdfast/storage-fs: " +
        "npm install @holdfast/clickhouse-embedded @holdfast/storage-fs\n",
    );
  });

  it("are loaded only when named", async () => {
    let loads = 0;
    const counting: Peers = {
      "@holdfast/storage-fs": () => ((loads += 1), installedPeers["@holdfast/storage-fs"]()),
      "@holdfast/storage-s3": () => ((loads += 1), installedPeers["@holdfast/storage-s3"]()),
      "@holdfast/storage-gcs": () => ((loads += 1), installedPeers["@holdfast/storage-gcs"]()),
      "@holdfast/clickhouse-embedded": () => ((loads += 1), installedPeers["@holdfast/clickhouse-embedded"]()),
    };
    await run(["inspect", "/no/such/pack"], { peers: counting });
    await run(["status"], { peers: counting });
    expect(loads).toBe(0);
  });

  it.each([
    ["s3", "@holdfast/storage-s3", "@aws-sdk/client-s3"],
    ["gcs", "@holdfast/storage-gcs", "@google-cloud/storage"],
  ] as const)(
    "the one of a bucket (%s) is asked for with the SDK that it needs, and the SDK alone where only that is absent",
    async (kind, name, sdk) => {
      const file = join(tempDir(), "c.json");
      writeFileSync(file, JSON.stringify({ store: { kind, bucket: "captures" } }));
      const argv = ["inspect", "some/key", "--config", file];
      expect((await run(argv, { peers: nothingInstalled })).err).toBe(
        `error: [PACKAGE_MISSING] store.kind "${kind}" needs ${name} and ${sdk}: npm install ${name} ${sdk}\n`,
      );
      const noSdk: Peers = { ...nothingInstalled, [name]: absent(sdk) };
      expect((await run(argv, { peers: noSdk })).err).toBe(
        `error: [PACKAGE_MISSING] store.kind "${kind}" needs ${sdk}: npm install ${sdk}\n`,
      );
    },
  );

  it("one that is there and fails to load keeps its own message", async () => {
    const broken: Peers = {
      ...nothingInstalled,
      "@holdfast/storage-fs": installedPeers["@holdfast/storage-fs"],
      "@holdfast/clickhouse-embedded": () => Promise.reject(new Error("this machine has no glibc")),
    };
    expect((await run(["demo"], { peers: broken })).err).toBe("error: this machine has no glibc\n");
  });
});

describe("oneLine", () => {
  it("of an error with a code it is the message, of another the causes follow that say something new", () => {
    const coded = new Error("[X_Y] says all", { cause: new Error("inner") });
    expect(oneLine(coded)).toBe("[X_Y] says all");
    const foreign = new Error("outer", { cause: new Error("inner\n  detail", { cause: new Error("inner detail") }) });
    expect(oneLine(foreign)).toBe("outer <- inner detail");
    expect(oneLine(new Error("outer", { cause: coded }))).toBe("outer <- [X_Y] says all");
    const refused = new AggregateError([new Error("connect ECONNREFUSED 127.0.0.1:1")], "");
    expect(oneLine(refused)).toBe("connect ECONNREFUSED 127.0.0.1:1");
    expect(oneLine("text")).toBe("text");
  });
});
