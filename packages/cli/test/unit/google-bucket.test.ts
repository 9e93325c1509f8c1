// Goal: a bucket of Google in the configuration file becomes the store that it describes, or a refusal that names the knob; no key is read from the
// file, and none that was put there by mistake comes out. Method: files in a temporary directory, the whole program, and a store that remembers.
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { openStore } from "../../src/open.js";
import { installedPeers, type Peers } from "../../src/peers.js";
import { readSettings } from "../../src/settings.js";
import { run, tempDir, testIo } from "./helpers.js";

// The SDK looks into the environment of this process, and so would these tests.
beforeEach(() => {
  vi.stubEnv("STORAGE_EMULATOR_HOST", undefined);
  onTestFinished(() => void vi.unstubAllEnvs());
});

function configFile(store: unknown): string {
  const file = join(tempDir(), "holdfast.json");
  writeFileSync(file, JSON.stringify({ store }));
  return file;
}

const inspect = (store: unknown) => run(["inspect", "some/key", "--config", configFile(store)]);

/** What gcsStore was given for the file, and the store that it made. */
async function opened(
  config: string,
  flags: { storeId?: string; timeout?: string } = {},
): Promise<{ options: unknown; storeId: string }> {
  const { io } = testIo();
  let options: unknown;
  const peers: Peers = {
    ...installedPeers,
    "@holdfast/storage-gcs": async () => {
      const real = await installedPeers["@holdfast/storage-gcs"]();
      const gcsStore: typeof real.gcsStore = (o) => ((options = o), real.gcsStore(o));
      return { ...real, gcsStore };
    },
  };
  const store = await openStore(await readSettings({ config, ...flags }, io), io, peers);
  return { options, storeId: store.storeId };
}

const minimal = { kind: "gcs", bucket: "captures" };
const tokenTimeoutMs = 10_000; // as any request, unless --timeout says otherwise

describe("a bucket of Google in the configuration file", () => {
  it("is handed to the store knob by knob; what is not there stays the store's own default", async () => {
    const options = {
      bucket: "captures",
      apiEndpoint: "http://127.0.0.1:4443",
      keyPrefix: "team-a/",
      useAuthWithCustomEndpoint: false,
      allowHttp: true,
      userProject: "billed",
      storeId: "captures-eu",
    };
    expect(await opened(configFile({ kind: "gcs", ...options }))).toEqual({
      options: { ...options, tokenTimeoutMs },
      storeId: "captures-eu",
    });
    const unsaid = { bucket: "captures", tokenTimeoutMs };
    expect(await opened(configFile(minimal))).toEqual({ options: unsaid, storeId: "gcs:captures" });
    expect((await opened(configFile({ ...minimal, storeId: "of-the-file" }), { storeId: "of-the-flag" })).storeId).toBe(
      "of-the-flag",
    );
  });

  it("its key file is beside the configuration; one that cannot be read is named before anything is sent", async () => {
    const file = configFile({ ...minimal, keyFilename: "key.json" });
    const path = join(file, "..", "key.json");
    writeFileSync(path, "{}");
    expect((await opened(file)).options).toEqual({ bucket: "captures", keyFilename: path, tokenTimeoutMs });
    const ran = await inspect({ ...minimal, keyFilename: "no-such.json" });
    expect(ran.err).toMatch(/^error: \[FILE_UNREADABLE\] cannot read [^\n]*\/no-such\.json: ENOENT[^\n]*\n$/);
  });

  // Red without the option: a command whose token never comes has printed its error after --timeout, and ends 30 s after its begin.
  it("its token is waited for no longer than any request", async () => {
    expect((await opened(configFile(minimal), { timeout: "700" })).options).toMatchObject({ tokenTimeoutMs: 700 });
  });

  it("STORAGE_EMULATOR_HOST is its endpoint where the file names none, as for the store itself", async () => {
    vi.stubEnv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:4443");
    expect((await opened(configFile({ ...minimal, allowHttp: true }))).storeId).toBe("gcs:127.0.0.1:4443/captures");
    const named = { ...minimal, allowHttp: true, apiEndpoint: "http://127.0.0.1:9" };
    expect((await opened(configFile(named))).storeId).toBe("gcs:127.0.0.1:9/captures");
    // Red where every message is taken for one about a knob of the file.
    expect((await inspect(minimal)).err).toMatch(
      /^error: \[CONFIG_INVALID\] STORAGE_EMULATOR_HOST, which stands for apiEndpoint, is http:[^\n]*allowHttp[^\n]*\n$/,
    );
  });

  it.each([
    [{ kind: "gcs" }, "store.bucket"],
    [{ ...minimal, buckte: "b" }, "store.buckte: no such knob"],
    [{ ...minimal, region: "eu-1" }, "store.region: no such knob"],
    [{ ...minimal, endpoint: "https://gcs.internal" }, "store.endpoint: no such knob"],
    [{ ...minimal, allowHttp: "yes" }, "store.allowHttp"],
    [{ ...minimal, useAuthWithCustomEndpoint: 1 }, "store.useAuthWithCustomEndpoint"],
    // What the store itself refuses comes with the knob's full path, too.
    [{ ...minimal, bucket: "a/b" }, 'store.bucket is "a/b"; give the name of a bucket'],
    [{ ...minimal, apiEndpoint: "http://gcs.internal" }, "store.apiEndpoint is http:"],
    [{ ...minimal, userProject: "a b" }, 'store.userProject is "a b"'],
    [{ ...minimal, keyPrefix: "a\nb" }, "store.keyPrefix: the prefix"],
  ])("%j is refused", async (store, message) => {
    const ran = await inspect(store);
    expect(ran).toMatchObject({ code: 1, out: "" });
    expect(ran.err).toMatch(/^error: \[CONFIG_INVALID\] [^\n]+\n$/);
    expect(ran.err).toContain(message);
  });

  const instead = "store.keyFilename, or leave it out for what the Google SDK finds";
  const account = { client_email: "me@project.iam", private_key: "hunter2" };
  // Red where the value is shown as for any other knob.
  it.each([
    [{ ...minimal, credentials: account }, ["store.credentials: no such knob", instead]],
    [{ ...minimal, private_key: "hunter2" }, ["store.private_key: no such knob", instead]],
    [{ ...minimal, token: "hunter2" }, ["store.token: no such knob", instead]],
    [{ ...minimal, keyFilename: account }, ["store.keyFilename", "not shown"]],
    [{ ...minimal, keyFilename: JSON.stringify(account) }, ["store.keyFilename", "not what is in it"]],
    [{ ...minimal, keyFilename: "-----BEGIN PRIVATE KEY-----hunter2" }, ["store.keyFilename", "not what is in it"]],
    [{ ...minimal, keyFilename: "hunter2".repeat(200) }, ["store.keyFilename", "the path of a key file"]],
    [{ ...minimal, apiEndpoint: "https://id:hunter2@gcs.internal" }, ["store.apiEndpoint must not hold credentials"]],
    [{ ...minimal, apiEndpoint: "https://gcs.internal/?key=hunter2" }, ["store.apiEndpoint must have neither"]],
    [{ ...minimal, apiEndpoint: ["hunter2"] }, ["store.apiEndpoint", "not shown"]],
  ])("a key in the file is refused, and not printed: %j", async (store, parts) => {
    const ran = await inspect(store);
    expect(ran).toMatchObject({ code: 1, out: "" });
    expect(ran.err).toMatch(/^error: \[CONFIG_INVALID\] [^\n]+\n$/);
    for (const part of parts) expect(ran.err).toContain(part);
    expect(ran.err).not.toContain("hunter2");
  });
});

describe("inspect on a bucket of Google", () => {
  it("that has no such key says so, with the bucket", async () => {
    const notFound = JSON.stringify({
      error: { code: 404, message: "No such object", errors: [{ reason: "notFound" }] },
    });
    const headers = { "content-type": "application/json" };
    const server = createServer((_, response) => response.writeHead(404, headers).end(notFound)).listen(0, "127.0.0.1");
    onTestFinished(() => {
      server.close().closeAllConnections();
    });
    await new Promise((ready) => server.once("listening", ready));
    const apiEndpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port.toString()}`;
    expect((await inspect({ ...minimal, apiEndpoint, allowHttp: true })).err).toBe(
      "error: [FILE_UNREADABLE] there is neither a file some/key nor such a key in bucket captures\n",
    );
  });

  it("a key file that holds no key is one line, and what it holds is not printed", async () => {
    const store = { ...minimal, apiEndpoint: "http://127.0.0.1:9", allowHttp: true, keyFilename: "key.json" };
    const file = configFile(store);
    writeFileSync(join(file, "..", "key.json"), "hunter2");
    const ran = await run(["inspect", "some/key", "--config", file]);
    expect(ran.err).toMatch(/^error: \[ACCESS_DENIED\] [^\n]*no access token[^\n]*\n$/);
    expect(ran.err).not.toContain("hunter2");
  });
});
