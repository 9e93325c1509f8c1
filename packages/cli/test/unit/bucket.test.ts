// Goal: a bucket in the configuration file becomes the store that it describes, or a refusal that names the knob; no key is read from the file,
// and none that was put there by mistake comes out. Method: files in a temporary directory, the whole program, and a store that remembers.
import { readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import type { AddressInfo } from "node:net";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { checkConfig } from "../../src/config.js";
import { openStore } from "../../src/open.js";
import { openPackObject } from "../../src/pack-source.js";
import { installedPeers, type Peers } from "../../src/peers.js";
import { readSettings } from "../../src/settings.js";
import { run, tempDir, testIo } from "./helpers.js";

type Env = Record<string, string>;

function configFile(store: unknown): string {
  const file = join(tempDir(), "holdfast.json");
  writeFileSync(file, JSON.stringify({ store }));
  return file;
}

/** What s3Store was given for a configuration, or for the file that has it. */
async function optionsFor(store: unknown, env: Env = {}, config = configFile(store)): Promise<unknown> {
  const { io } = testIo({ env });
  let seen: unknown;
  const peers: Peers = {
    ...installedPeers,
    "@holdfast/storage-s3": async () => {
      const real = await installedPeers["@holdfast/storage-s3"]();
      const s3Store: typeof real.s3Store = (o) => ((seen = o), real.s3Store(o));
      return { ...real, s3Store };
    },
  };
  await openStore(await readSettings({ config }, io), io, peers);
  return seen;
}

const minimal = { kind: "s3", bucket: "captures" };
const keys = { accessKeyIdEnv: "MY_ID", secretAccessKeyEnv: "MY_SECRET" };

describe("a bucket in the configuration file", () => {
  it("is handed to the store knob by knob; what is not there stays the store's own default", async () => {
    const everything = {
      ...minimal,
      endpoint: "http://127.0.0.1:9000",
      region: "eu-1",
      style: "virtual",
      keyPrefix: "team-a/",
      checksum: "md5",
      ifMatch: "unquoted",
      allowHttp: true,
      expectedBucketOwner: "123456789012",
      storeId: "captures-eu",
    } as const;
    expect(await optionsFor(everything)).toEqual(everything);
    expect(await optionsFor(minimal)).toEqual(minimal);
    expect(await optionsFor({ ...minimal, ifMatch: false })).toEqual({ ...minimal, ifMatch: false });
  });

  it("takes keys from the variables that it names, a session token too, and none where it names none", async () => {
    const env = { MY_ID: "id", MY_SECRET: "hunter2", MY_TOKEN: "session" };
    expect(await optionsFor({ ...minimal, credentials: keys }, env)).toMatchObject({
      credentials: { accessKeyId: "id", secretAccessKey: "hunter2" },
    });
    expect(await optionsFor({ ...minimal, credentials: { ...keys, sessionTokenEnv: "MY_TOKEN" } }, env)).toMatchObject({
      credentials: { accessKeyId: "id", secretAccessKey: "hunter2", sessionToken: "session" },
    });
    expect(await optionsFor(minimal, env)).not.toHaveProperty("credentials");
  });

  it("its certificates are read from a file beside it", async () => {
    const store = { ...minimal, endpoint: "https://s3.internal" };
    const file = configFile({ ...store, caFile: "ca.pem" });
    const ca = "not a certificate, and nobody looks before a connection";
    writeFileSync(join(file, "..", "ca.pem"), ca);
    // Red without `ca` in `openBucket`: the machine's authorities would be trusted instead.
    expect(await optionsFor(null, {}, file)).toEqual({ ...store, ca });
    const missing = await run(["inspect", "k", "--config", configFile({ ...minimal, caFile: "no-such.pem" })]);
    expect(missing.err).toMatch(/^error: \[FILE_UNREADABLE\] cannot read .*no-such\.pem/);
  });

  it("--store-id goes before the file's storeId", async () => {
    const { io } = testIo();
    const flags = { config: configFile({ ...minimal, storeId: "of-the-file" }), storeId: "of-the-flag" };
    expect((await openStore(await readSettings(flags, io), io, installedPeers)).storeId).toBe("of-the-flag");
  });

  it.each([
    [{ kind: "s3" }, "store.bucket"],
    [{ ...minimal, buckte: "b" }, "store.buckte: no such knob"],
    [{ ...minimal, directory: "d" }, "store.directory: no such knob"],
    [{ ...minimal, style: "hosted" }, 'store.style: Invalid option: expected one of "path"|"virtual", got "hosted"'],
    [{ ...minimal, checksum: "sha256" }, "store.checksum"],
    [{ ...minimal, ifMatch: true }, "store.ifMatch"],
    [{ ...minimal, allowHttp: "yes" }, "store.allowHttp"],
    [{ ...minimal, credentials: { accessKeyIdEnv: "MY_ID" } }, "store.credentials.secretAccessKeyEnv"],
    // What the store itself refuses comes with the knob's full path, too.
    [{ ...minimal, bucket: "a/b" }, "store.bucket must be the name of a bucket"],
    [{ ...minimal, endpoint: "http://s3.internal" }, "store.endpoint is http:"],
    [{ ...minimal, endpoint: "s3.internal" }, "store.endpoint must be a URL"],
    [{ ...minimal, expectedBucketOwner: "me" }, "store.expectedBucketOwner must be"],
    [{ ...minimal, keyPrefix: "a\nb" }, "store.keyPrefix: the prefix"],
  ])("%j is refused", async (store, message) => {
    const ran = await run(["inspect", "some/key", "--config", configFile(store)]);
    expect(ran).toMatchObject({ code: 1, out: "" });
    expect(ran.err).toMatch(/^error: \[CONFIG_INVALID\] [^\n]+\n$/);
    expect(ran.err).toContain(message);
  });

  // Red where the value is shown as for any other knob, and where the name of an absent variable is repeated.
  it.each([
    [{ ...minimal, secretAccessKey: "hunter2" }, ["store.secretAccessKey: no such knob", "store.credentials"]],
    [{ ...minimal, sessionToken: "hunter2" }, ["store.sessionToken: no such knob", "store.credentials"]],
    [
      { ...minimal, credentials: { accessKeyId: "hunter2", secretAccessKey: "hunter2" } },
      ["store.credentials.secretAccessKey", "name environment variables"],
    ],
    [{ ...minimal, credentials: "hunter2:hunter2" }, ["store.credentials", "not shown"]],
    [
      { ...minimal, credentials: { ...keys, secretAccessKeyEnv: "hunter2/+=" } },
      ["store.credentials.secretAccessKeyEnv", "must be the name of an environment variable"],
    ],
    [
      { ...minimal, credentials: { ...keys, secretAccessKeyEnv: "hunter2" } },
      ["store.credentials.secretAccessKeyEnv", "no variable of that name"],
    ],
    [{ ...minimal, endpoint: "https://id:hunter2@s3.internal" }, ["store.endpoint must not carry credentials"]],
    [{ ...minimal, endpoint: "https://s3.internal/?key=hunter2" }, ["store.endpoint must have neither"]],
    [{ ...minimal, endpoint: ["hunter2"] }, ["store.endpoint"]],
    ["s3://id:hunter2@captures", ["store", "not shown"]],
    [{ kind: { hunter2: "hunter2" } }, ["store.kind", "got an object"]],
  ])("a key in the file is refused, and not printed: %j", async (store, parts) => {
    const env = { MY_ID: "id" };
    const ran = await run(["inspect", "some/key", "--config", configFile(store)], { env });
    expect(ran).toMatchObject({ code: 1, out: "" });
    expect(ran.err).toMatch(/^error: \[CONFIG_INVALID\] [^\n]+\n$/);
    for (const part of parts) expect(ran.err).toContain(part);
    expect(ran.err).not.toContain("hunter2");
  });

  it("an empty variable is as good as none, and both are told of at once", async () => {
    const ran = await run(["inspect", "k", "--config", configFile({ ...minimal, credentials: keys })], {
      env: { MY_ID: "" },
    });
    expect(ran.err).toContain(
      "store.credentials.accessKeyIdEnv and store.credentials.secretAccessKeyEnv: the environment",
    );
  });

  it("each JSON block of the README is a configuration that is taken", () => {
    const readme = readFileSync(new URL("../../README.md", import.meta.url), "utf8");
    const blocks = [...readme.matchAll(/^```json\n([\s\S]*?)^```$/gm)].map(([, text = ""]) => text);
    expect(blocks.length).toBeGreaterThan(0);
    for (const text of blocks) checkConfig(JSON.parse(text), "README.md");
  });
});

describe("inspect on a bucket", () => {
  it("that nobody serves is one line, not a hang", async () => {
    const env = { MY_ID: "id", MY_SECRET: "hunter2" };
    const store = { ...minimal, endpoint: "http://127.0.0.1:9", allowHttp: true, credentials: keys };
    const ran = await run(["inspect", "some/key", "--config", configFile(store), "--timeout", "5000"], { env });
    expect(ran.err).toMatch(/^error: \[UNAVAILABLE\] HEAD of "some\/key" failed \(ECONNREFUSED\)[^\n]*\n$/);
  });

  it("that has no such key says so, with the bucket", async () => {
    const server = createServer((_request, response) => response.writeHead(404).end()).listen(0, "127.0.0.1");
    onTestFinished(() => {
      server.close().closeAllConnections();
    });
    await new Promise((ready) => server.once("listening", ready));
    const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port.toString()}`;
    const env = { MY_ID: "id", MY_SECRET: "hunter2" };
    const config = configFile({ ...minimal, endpoint, allowHttp: true, credentials: keys });
    const ran = await run(["inspect", "some/key", "--config", config], { env });
    expect(ran.err).toBe(
      "error: [FILE_UNREADABLE] there is neither a file some/key nor such a key in bucket captures\n",
    );
  });

  // Red without the bound: the store waits for its signal only.
  it("a store that never answers ends with its bound, which names the knob", async () => {
    const clock = new VirtualClock();
    const real = (await installedPeers["@holdfast/storage-s3"]()).s3Store;
    const silent = createServer(() => undefined).listen(0, "127.0.0.1");
    onTestFinished(() => {
      silent.close().closeAllConnections();
    });
    await new Promise((ready) => silent.once("listening", ready));
    const store = real({
      bucket: "captures",
      endpoint: `http://127.0.0.1:${(silent.address() as AddressInfo).port.toString()}`,
      allowHttp: true,
      credentials: { accessKeyId: "id", secretAccessKey: "hunter2" },
    });
    const arrived = new Promise((request) => silent.once("request", request));
    const { signal } = new AbortController();
    const opening = openPackObject(store, "k", { clock, requestTimeoutMs: 700, signal });
    opening.catch(() => undefined);
    await arrived;
    await clock.advance(700);
    await expect(opening).rejects.toMatchObject({
      code: "DEADLINE_EXCEEDED",
      message: expect.stringContaining("catalog.requestTimeoutMs") as string,
    });
  });
});
