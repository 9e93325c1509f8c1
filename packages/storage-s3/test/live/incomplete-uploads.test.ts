// Goal: what a killed process leaves of an upload can be ended, once it is old enough, and nothing else of the bucket. Method: a process is killed
// by SIGKILL in the middle of an upload to a real server; the plain SDK is the oracle for what is open there.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";
import { until } from "@holdfast-private/tests-machine";
import { abortIncompleteUploads } from "@holdfast/storage-s3";
import { describe, expect, it, onTestFinished } from "vitest";
import { bucketOfThisFile, cephOptions, server } from "../support/rgw.js";
import * as sdk from "@aws-sdk/client-s3";

const conditions = process.env["HOLDFAST_TEST_TARGET"] === "dist" ? [] : ["--conditions=@holdfast/source"];
const tsx = pathToFileURL(createRequire(import.meta.url).resolve("tsx")).href;

/** Starts an upload in a process and kills it when parts of it are on the server. */
async function killedUpload(bucket: string, keyPrefix: string): Promise<void> {
  const args = [
    ...conditions,
    "--import",
    tsx,
    fileURLToPath(new URL("uploader.ts", import.meta.url)),
    bucket,
    keyPrefix,
  ];
  const env = { ...process.env, AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: "true", NODE_OPTIONS: "" };
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"], env });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  const ended = once(child, "close");
  const [said] = (await Promise.race([once(child.stdout, "data"), ended])) as unknown[];
  expect(String(said)).toBe("parts are there\n");
  child.kill("SIGKILL");
  expect(await ended).toEqual([null, "SIGKILL"]);
}

describe.skipIf(server === null)("abortIncompleteUploads on a real server", () => {
  const bucket = bucketOfThisFile();

  it("ends what a killed process left, once it is older than the age, and not what is under another prefix", async () => {
    const client = new sdk.S3Client({ ...server!, forcePathStyle: true });
    const open = async () =>
      ((await client.send(new sdk.ListMultipartUploadsCommand({ Bucket: bucket }))).Uploads ?? []).map(
        ({ Key }) => Key,
      );
    const theirs = { Bucket: bucket, Key: "theirs/a" };
    const { UploadId } = await client.send(new sdk.CreateMultipartUploadCommand(theirs));
    await killedUpload(bucket, "ours +%/");
    expect(await open()).toEqual(["ours +%/killed", "theirs/a"]);

    const sweep = (olderThanMs: number) =>
      abortIncompleteUploads(
        { ...server!, ...cephOptions, bucket, keyPrefix: "ours +%/" },
        { olderThanMs, signal: new AbortController().signal },
      );
    expect(await sweep(3_600_000)).toEqual({ found: 1, aborted: 0, young: 1, gone: 0 });
    expect(await open()).toEqual(["ours +%/killed", "theirs/a"]);
    // It becomes old enough in two seconds of the server's.
    const sweeps: unknown[] = [];
    await until("the upload is old enough", async () => {
      const found = await sweep(1);
      sweeps.push(found);
      return found.young === 0;
    });
    expect(sweeps.at(-1)).toEqual({ found: 1, aborted: 1, young: 0, gone: 0 });
    expect(await open()).toEqual(["theirs/a"]);
    expect(await sweep(1)).toEqual({ found: 0, aborted: 0, young: 0, gone: 0 });

    await client.send(new sdk.AbortMultipartUploadCommand({ ...theirs, UploadId }));
    client.destroy();
  });
});
