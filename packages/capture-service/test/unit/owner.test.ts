// Goal: a spool directory has one owner at a time. Method: real sockets in a temporary directory; many takers at once. What
// SIGKILL, SIGSTOP and process namespaces add is shown with processes, in tests/crash.
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createServer } from "node:net";
import { systemClock } from "@holdfast/deadline-http";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { takeOwnership } from "../../src/spool/owner.js";
import { PowerFiles } from "../support/power-files.js";
import { directory as spoolDirectory, open } from "../support/spool.js";

const o = { clock: systemClock, random: Math.random };
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "holdfast-owner-"));
});
afterEach(async () => {
  await rm(directory, { recursive: true, force: true });
});

describe("ownership of a directory", () => {
  it("is refused while another has it, by name, and free after a release", async () => {
    const first = await takeOwnership(directory, o);
    await expect(takeOwnership(directory, o)).rejects.toMatchObject({ code: "SPOOL_IN_USE" });
    await first.release();
    expect(await readdir(directory)).toEqual([]);
    await (await takeOwnership(directory, o)).release();
  });

  it("has one winner of twelve takers at once", async () => {
    for (let round = 0; round < 4; round += 1) {
      const taken = await Promise.allSettled(Array.from({ length: 12 }, () => takeOwnership(directory, o)));
      const winners = taken.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
      expect(winners).toHaveLength(1);
      await expect(takeOwnership(directory, o)).rejects.toMatchObject({ code: "SPOOL_IN_USE" });
      for (const winner of winners) await winner.release();
    }
  });

  it("passes over what dead owners left, and cleans it up", async () => {
    const dead = join(directory, "owner-0191f0a0-0000-7000-8000-000000000001.sock");
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(join(directory, ".x"), resolve));
    await import("node:fs/promises").then(({ rename }) => rename(join(directory, ".x"), dead));
    await new Promise((resolve) => server.close(resolve));
    await writeFile(join(directory, ".claim-0191f0a0-0000-7000-8000-000000000002.sock"), "");
    const owner = await takeOwnership(directory, o);
    expect((await readdir(directory)).sort()).toEqual([
      expect.stringMatching(/^held-/),
      expect.stringMatching(/^owner-/),
    ]);
    expect(await readdir(directory)).not.toContain("owner-0191f0a0-0000-7000-8000-000000000001.sock");
    await owner.release();
  });

  it("works in a directory deeper than a socket address is long", async () => {
    const deep = join(directory, "d".repeat(80), "e".repeat(80));
    await mkdir(deep, { recursive: true });
    const first = await takeOwnership(deep, o);
    await expect(takeOwnership(deep, o)).rejects.toMatchObject({ code: "SPOOL_IN_USE" });
    await first.release();
    await (await takeOwnership(deep, o)).release();
  });
});

describe("directories that cannot be a spool", () => {
  it("a network file system and a directory inside another spool are refused by name", async () => {
    const network = new PowerFiles();
    network.fileSystemType = async () => 0x6969;
    await expect(open(network)).rejects.toMatchObject({
      code: "SPOOL_UNSUITABLE",
      message: expect.stringMatching(/NFS.*allowSharedFileSystem/) as string,
    });
    const nested = new PowerFiles();
    await (await open(nested)).close();
    await expect(open(nested, { directory: join(spoolDirectory, "inner") })).rejects.toMatchObject({
      code: "SPOOL_UNSUITABLE",
      message: expect.stringMatching(/inside another spool directory/) as string,
    });
  });
});
