// Goal: a wrong configuration is refused with the full path and value of each knob, and no secret comes out.
// Method: files as text in a temporary directory, checked through the functions that the commands use.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checkConfig, readConfig } from "../../src/config.js";
import { readSettings } from "../../src/settings.js";
import { tempDir, testIo } from "./helpers.js";

const refusal = (code: string, ...parts: string[]): unknown =>
  expect.objectContaining({ code, message: expect.stringMatching(new RegExp(parts.join(".*"), "s")) as string });

describe("checkConfig", () => {
  it("takes every knob", () => {
    const config = {
      catalog: {
        url: "http://127.0.0.1:8123",
        username: "u",
        passwordFile: "pw",
        database: "d",
        requestTimeoutMs: 60000,
      },
      schema: "tensor",
      store: { kind: "fs", directory: "objects", storeId: "s" },
      lease: { ttlMs: 15000, clockSkewMs: 0, publishTimeoutMs: 5000 },
    };
    expect(checkConfig(config, "f")).toEqual(config);
    expect(checkConfig({}, "f")).toEqual({});
  });

  it.each([
    [{ catalog: { requestTimeoutMs: "soon" } }, ["catalog.requestTimeoutMs", 'got "soon"']],
    [{ catalog: { requestTimeoutMs: 1.5 } }, ["catalog.requestTimeoutMs", "got 1.5"]],
    [{ catalog: { url: "" } }, ["catalog.url", 'got ""']],
    [{ catalog: { ulr: "http://x" } }, ["catalog.ulr", "no such knob"]],
    [{ catalogue: {} }, ["catalogue", "no such knob"]],
    [{ store: { kind: "ftp", directory: "d" } }, ["store.kind", 'got "ftp"']],
    [{ store: { directory: "d" } }, ["store.kind", "got nothing"]],
    [{ store: { kind: "fs" } }, ["store.directory", "got nothing"]],
    [{ lease: { topology: "many" } }, ["lease.topology", 'got "many"']],
    [[], ["the whole file", "got an object"]],
    [null, ["the whole file", "got null"]],
    [
      { catalog: { url: 1 }, store: { kind: "fs", directory: 2 } },
      ["catalog.url", "got 1", "store.directory", "got 2"],
    ],
  ])("%j is refused", (config, parts) => {
    expect(() => checkConfig(config, "holdfast.json")).toThrow(refusal("CONFIG_INVALID", "holdfast.json", ...parts));
  });

  it("CF-05 the lease's rules are those of the lease itself, with knob paths and numbers", () => {
    expect(() => checkConfig({ lease: { ttlMs: 3000, clockSkewMs: 2000 } }, "f")).toThrow(
      refusal("CONFIG_INVALID", "lease.clockSkewMs", "2000"),
    );
    expect(() => checkConfig({ lease: { publishTimeoutMs: 5000 }, catalog: { requestTimeoutMs: 9999 } }, "f")).toThrow(
      refusal("CONFIG_INVALID", "catalog.requestTimeoutMs", "9999"),
    );
  });

  it("a password in the file is refused without being printed", () => {
    const attempt = () => checkConfig({ catalog: { password: "hunter2" } }, "f");
    expect(attempt).toThrow(refusal("CONFIG_INVALID", "catalog.password", "catalog.passwordFile", "HOLDFAST_PASSWORD"));
    expect(attempt).not.toThrow("hunter2");
    expect(() => checkConfig({ catalog: { url: { password: "hunter2" } } }, "f")).not.toThrow("hunter2");
  });
});

describe("readConfig", () => {
  it("paths are relative to the file's folder", async () => {
    const dir = tempDir();
    const file = join(dir, "holdfast.json");
    const config = { catalog: { passwordFile: "pw" }, store: { kind: "fs", directory: "o" }, schema: "s.json" };
    writeFileSync(file, JSON.stringify(config));
    expect(await readConfig(file)).toEqual({
      catalog: { passwordFile: join(dir, "pw") },
      store: { kind: "fs", directory: join(dir, "o") },
      schema: join(dir, "s.json"),
    });
  });

  it("a file that is not there and one that is not JSON are named, the content is not printed", async () => {
    const dir = tempDir();
    const file = join(dir, "pw.txt");
    await expect(readConfig(file)).rejects.toThrow(refusal("FILE_UNREADABLE", "pw.txt"));
    writeFileSync(file, "hunter2\n");
    await expect(readConfig(file)).rejects.toThrow(refusal("CONFIG_INVALID", "pw.txt", "not JSON"));
    await expect(readConfig(file)).rejects.not.toThrow("hunter");
  });
});

describe("readSettings", () => {
  it("a flag goes before the environment, the environment before the file", async () => {
    const dir = tempDir();
    writeFileSync(join(dir, "filepw"), "from-file\n");
    writeFileSync(join(dir, "flagpw"), "from-flag");
    const config = {
      catalog: { url: "http://file:1", username: "file", passwordFile: "filepw", requestTimeoutMs: 11 },
    };
    writeFileSync(
      join(dir, "c.json"),
      JSON.stringify({ ...config, catalog: { ...config.catalog, requestTimeoutMs: 20000 } }),
    );
    const file = await readSettings({ config: "c.json" }, testIo({ cwd: dir }).io);
    expect(file.catalog).toEqual({
      url: "http://file:1",
      username: "file",
      password: "from-file",
      database: "default",
      requestTimeoutMs: 20000,
    });
    const env = { HOLDFAST_CATALOG: "http://env:2", HOLDFAST_PASSWORD: "from-env" };
    const environment = await readSettings({ config: "c.json" }, testIo({ cwd: dir, env }).io);
    expect(environment.catalog).toMatchObject({ url: "http://env:2", password: "from-env", username: "file" });
    const flags = {
      config: "c.json",
      catalog: "http://flag:3",
      user: "flag",
      passwordFile: "flagpw",
      database: "d",
      timeout: "7",
    };
    const flag = await readSettings(flags, testIo({ cwd: dir, env }).io);
    expect(flag.catalog).toEqual({
      url: "http://flag:3",
      username: "flag",
      password: "from-flag",
      database: "d",
      requestTimeoutMs: 7,
    });
  });

  it.each([
    [{ catalog: "localhost:8123" }, ["not ClickHouse's HTTP interface"]],
    [{ catalog: "nonsense" }, ["not a URL", "http://HOST:PORT"]],
    [{ catalog: "ftp://h:1" }, ["not ClickHouse's HTTP interface"]],
    [{ catalog: "http://h:1", timeout: "soon" }, ["--timeout soon"]],
    [{ catalog: "http://h:1", timeout: "0" }, ["--timeout 0", "at least 1"]],
    [{ store: "s3://bucket" }, ["--store s3://bucket", "fs:DIR", "--config FILE"]],
    [{ store: "objects" }, ["--store objects", "fs:DIR"]],
    [{ store: "fs:" }, ["fs:DIR"]],
  ])("%j is refused", async (flags, parts) => {
    await expect(readSettings(flags, testIo().io)).rejects.toThrow(refusal("USAGE_INVALID", ...parts));
  });

  it("credentials in the URL are refused without being printed", async () => {
    for (const catalog of ["http://u:hunter2@h:1", "http://u:hunter2@:bad:", "http://h:1/?password=hunter2"]) {
      const attempt = readSettings({ catalog }, testIo().io);
      await expect(attempt).rejects.toThrow(refusal("USAGE_INVALID"));
      await expect(attempt).rejects.not.toThrow("hunter2");
    }
  });

  it("a store of a flag does not take the id of the file's store", async () => {
    const dir = tempDir();
    writeFileSync(join(dir, "c.json"), JSON.stringify({ store: { kind: "fs", directory: "a", storeId: "id-a" } }));
    const io = testIo({ cwd: dir }).io;
    expect((await readSettings({ config: "c.json" }, io)).store).toEqual({
      kind: "fs",
      directory: join(dir, "a"),
      storeId: "id-a",
    });
    const flags = { config: "c.json", store: "fs:b" };
    expect((await readSettings(flags, io)).store).toEqual({ kind: "fs", directory: join(dir, "b") });
  });
});
