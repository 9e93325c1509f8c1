// Goal: the command works on packs in a bucket as on those in a directory. Method: a service publishes into Ceph's gateway and an embedded
// ClickHouse; the command is then asked, with the bucket in its configuration file: in a process of its own where that has credentials.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { ObjectStore } from "@holdfast/object-store";
import { s3Store } from "@holdfast/storage-s3";
import { describe, expect, it, onTestFinished } from "vitest";
import { holdfast, holdfastProcess, tempDir } from "./helpers.js";
import { publishOneFrame } from "./one-frame.js";

const url = process.env["HOLDFAST_S3_URL"];
if (url === undefined) {
  const how =
    "no S3 server: run `node scripts/rgw.mjs run -- npx vitest run --project live packages/cli`, or set HOLDFAST_S3_URL";
  // In CI that is a failure: a tier that skips itself shows nothing.
  if (process.env["CI"] !== undefined && process.env["CI"] !== "") throw new Error(how);
  console.log(`skipped: ${how}`);
}

const variables = {
  RGW_ID: process.env["HOLDFAST_S3_ACCESS_KEY_ID"] ?? "",
  RGW_SECRET: process.env["HOLDFAST_S3_SECRET_ACCESS_KEY"] ?? "",
};

/** A bucket's place for one test, emptied after it. */
function openPlace() {
  const place = {
    bucket: process.env["HOLDFAST_S3_BUCKET"] ?? "holdfast",
    endpoint: url ?? "",
    region: process.env["HOLDFAST_S3_REGION"] ?? "us-east-1",
    keyPrefix: `cli-${randomUUID()}/`,
    allowHttp: true,
    storeId: "frames-bucket",
  };
  const credentials = { accessKeyId: variables.RGW_ID, secretAccessKey: variables.RGW_SECRET };
  const store = s3Store({ ...place, credentials });
  onTestFinished(() => empty(store));
  return { place, store };
}

async function empty(store: ObjectStore): Promise<void> {
  const signal = AbortSignal.timeout(600_000);
  for await (const { key } of store.list({ prefix: "", signal })) await store.delete(key, { signal });
}

describe.skipIf(url === undefined)("packs in a bucket", () => {
  it("search, get and inspect read them by the configuration file; wrong keys and a wrong prefix are one line", async () => {
    const dir = tempDir();
    const { place, store } = openPlace();
    const { payload, flags } = await publishOneFrame(dir, store);
    const credentials = { accessKeyIdEnv: "RGW_ID", secretAccessKeyEnv: "RGW_SECRET" };
    const write = (name: string, changed: object) => flags(name, { kind: "s3", ...place, credentials, ...changed });
    const config = write("holdfast.json", {});
    const o = { cwd: dir, env: variables };

    const found = await holdfast(["search", ...config, "--where", "sensor=left", "--json"], o);
    expect(found).toMatchObject({ code: 0, err: expect.stringMatching(/^1 record of snapshot/) as string });
    const { captureId, pack } = JSON.parse(found.out) as { captureId: string; pack: { key: string; storeId: string } };
    expect(pack.storeId).toBe("frames-bucket");

    const file = join(dir, "payload.bin");
    expect(await holdfast(["get", captureId, ...config, "-o", file], o)).toMatchObject({ code: 0, out: "" });
    expect(readFileSync(file)).toEqual(payload);

    const inspected = await holdfast(["inspect", pack.key, ...config], o);
    expect(inspected).toMatchObject({ code: 0, err: "" });
    expect(inspected.out).toMatch(/verified 1 of 1 records, header, index and trailer\n$/);

    const elsewhere = await holdfast(["inspect", pack.key, ...write("elsewhere.json", { keyPrefix: "nowhere/" })], o);
    expect(elsewhere).toMatchObject({ code: 1, out: "" });
    expect(elsewhere.err).toBe(
      `error: [FILE_UNREADABLE] there is neither a file ${pack.key} nor such a key in bucket ${place.bucket}\n`,
    );

    const wrong = await holdfast(["inspect", pack.key, ...config], {
      cwd: dir,
      env: { ...variables, RGW_SECRET: "hunter2" },
    });
    expect(wrong).toMatchObject({ code: 1, out: "" });
    expect(wrong.err).toMatch(/^error: \[ACCESS_DENIED\] [^\n]+\n$/);
    expect(wrong.err).not.toContain("hunter2");

    // Without credentials in the file it is the SDK that looks for them.
    const sdk = { AWS_ACCESS_KEY_ID: variables.RGW_ID, AWS_SECRET_ACCESS_KEY: variables.RGW_SECRET };
    const chain = ["inspect", pack.key, ...write("chain.json", { credentials: undefined })];
    expect(await holdfastProcess(chain, { cwd: dir, env: sdk })).toMatchObject({ code: 0, err: "" });
    const nobody = { AWS_EC2_METADATA_DISABLED: "true", HOME: dir };
    expect((await holdfastProcess(chain, { cwd: dir, env: nobody })).err).toMatch(
      /^error: \[ACCESS_DENIED\] [^\n]+\n$/,
    );
  });
});
