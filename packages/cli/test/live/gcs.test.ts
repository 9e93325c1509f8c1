// Goal: the command works on packs in a bucket of Google as on those in a directory. Method: a service publishes into testkit's fake and an
// embedded ClickHouse; the command is then asked, with the bucket in its configuration file, in a process of its own where the environment counts.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { gcsStore } from "@holdfast/storage-gcs";
import { gcsObjects, startFaultServer } from "@holdfast/testkit";
import { expect, it, onTestFinished, vi } from "vitest";
import { holdfast, holdfastProcess, tempDir } from "./helpers.js";
import { publishOneFrame } from "./one-frame.js";

it("search, get and inspect read packs of Google by the configuration file; a wrong prefix and a wrong bucket are one line", async () => {
  // Of this process, where the SDK would find it; the fake is the test's own.
  vi.stubEnv("STORAGE_EMULATOR_HOST", undefined);
  onTestFinished(() => void vi.unstubAllEnvs());
  const bucket = `captures-${randomUUID()}`;
  const server = await startFaultServer({ otherwise: gcsObjects({ buckets: [bucket] }).answer });
  onTestFinished(() => server[Symbol.asyncDispose]());
  const place = { bucket, apiEndpoint: server.url, keyPrefix: "team-a/", allowHttp: true, storeId: "frames-bucket" };
  const dir = tempDir();
  const frame = await publishOneFrame(dir, gcsStore(place));
  const store = { kind: "gcs", ...place };
  const config = frame.flags("holdfast.json", store);

  const found = await holdfast(["search", ...config, "--where", "sensor=left", "--json"], { cwd: dir });
  expect(found).toMatchObject({ code: 0, err: expect.stringMatching(/^1 record of snapshot/) as string });
  const { captureId, pack } = JSON.parse(found.out) as { captureId: string; pack: { key: string; storeId: string } };
  expect(pack.storeId).toBe("frames-bucket");

  const file = join(dir, "payload.bin");
  expect(await holdfast(["get", captureId, ...config, "-o", file], { cwd: dir })).toMatchObject({ code: 0, out: "" });
  expect(readFileSync(file)).toEqual(frame.payload);

  const inspected = await holdfast(["inspect", pack.key, ...config], { cwd: dir });
  expect(inspected).toMatchObject({ code: 0, err: "" });
  expect(inspected.out).toMatch(/verified 1 of 1 records, header, index and trailer\n$/);

  const elsewhere = frame.flags("elsewhere.json", { ...store, keyPrefix: "nowhere/" });
  expect(await holdfast(["inspect", pack.key, ...elsewhere], { cwd: dir })).toEqual({
    code: 1,
    out: "",
    err: `error: [FILE_UNREADABLE] there is neither a file ${pack.key} nor such a key in bucket ${bucket}\n`,
  });
  const wrong = frame.flags("wrong.json", { ...store, bucket: "another-bucket" });
  expect(await holdfast(["inspect", pack.key, ...wrong], { cwd: dir })).toMatchObject({
    code: 1,
    err: expect.stringMatching(
      /^error: \[CONFIG_INVALID\] [^\n]*bucket another-bucket[^\n]*no such bucket[^\n]*\n$/,
    ) as string,
  });

  // Without an endpoint in the file it is the SDK that looks for one.
  const emulator = frame.flags("emulator.json", { ...store, apiEndpoint: undefined });
  const env = { STORAGE_EMULATOR_HOST: server.url };
  expect(await holdfastProcess(["inspect", pack.key, ...emulator], { cwd: dir, env })).toMatchObject({
    code: 0,
    err: "",
  });
});
