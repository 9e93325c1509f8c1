// Goal: a start that cannot work is refused by name, keeps nothing and loses nothing. Method: one server, real directories; what such a start must
// not have kept is taken by another one.
import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { freshSchema, foreverMs, note, once, patientLease } from "../support/catalog.js";
import { Rig } from "../support/rig.js";

let rig: Rig;
beforeAll(async () => {
  rig = await Rig.open();
});
afterAll(async () => {
  await rig.close();
});

describe("bad input", () => {
  it("a spool directory that cannot be used is refused, and the lease given back", async () => {
    const schema = await rig.installed();
    const store = rig.store(`store-${schema.name}`);
    await writeFile(rig.path("a-file"), "");
    const service = rig.service(schema, { store, spool: { directory: join(rig.path("a-file"), "spool") } });
    await expect(service.start()).rejects.toMatchObject({
      code: "SPOOL_UNWRITABLE",
      message: expect.stringMatching(/spool\.directory .*a-file/) as string,
    });
    // The lease is free at once: another start does not wait.
    const next = rig.service(schema, { store, lease: { ...patientLease, startWaitMs: 0 } });
    await next.start();
    await next.stop();
    await service.stop();
  });

  it.runIf(process.getuid?.() !== 0)("a directory without permission is refused by name", async () => {
    const schema = freshSchema();
    await mkdir(rig.path("locked"));
    await chmod(rig.path("locked"), 0o500);
    const service = rig.service(schema, {
      role: "capture-only",
      store: rig.store("s"),
      spool: { directory: rig.path("locked/spool") },
    });
    await expect(service.start()).rejects.toMatchObject({ code: "SPOOL_UNWRITABLE" });
  });

  it("a wrong password and a server that is not there are refused at once, without the password, and a start can follow", async () => {
    const schema = freshSchema();
    const store = rig.store(`store-${schema.name}`);
    const wrong = rig.service(schema, { store, catalog: { ...rig.catalog, password: "hunter2" } });
    await expect(wrong.start()).rejects.toMatchObject({
      code: "CATALOG_UNREACHABLE",
      message: expect.stringMatching(/password/) as string,
    });
    await expect(wrong.start()).rejects.not.toThrow(/hunter2/);
    const unreachable = rig.service(schema, { store, catalog: { ...rig.catalog, url: "http://127.0.0.1:1" } });
    await expect(unreachable.start()).rejects.toMatchObject({
      code: "CATALOG_UNREACHABLE",
      message: expect.stringMatching(/check that ClickHouse runs/) as string,
    });
    expect(unreachable.status()).toMatchObject({ state: "new" });
  });

  it("what was in the spool when a start was refused is there for the next one", async () => {
    const schema = await rig.installed();
    const store = rig.store(`store-${schema.name}`);
    const capture = rig.service(schema, { role: "capture-only", store });
    store.fault = () => "down";
    await capture.start();
    await (await capture.append(note("kept"))).durable();
    await capture.stop();
    store.fault = () => undefined;
    const wrong = rig.service(schema, { store, catalog: { ...rig.catalog, password: "wrong" } });
    await expect(wrong.start()).rejects.toThrow();
    const right = rig.service(schema, { store });
    await right.start();
    expect(await right.flush(foreverMs)).toBe(true);
    expect(await rig.visible(schema, store)).toEqual(once(["kept"]));
    await right.stop();
  });

  it("two services on one spool directory: the second is refused by name", async () => {
    const schema = freshSchema();
    const store = rig.store(`store-${schema.name}`);
    const first = rig.service(schema, { role: "capture-only", store });
    await first.start();
    const second = rig.service(schema, { role: "capture-only", store });
    await expect(second.start()).rejects.toMatchObject({
      code: "SPOOL_IN_USE",
      message: expect.stringContaining("spool-") as string,
    });
    await first.stop();
    await second.start();
    await second.stop();
  });
});
