import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createCaptureService, defineCaptureSchema } from "@holdfast/capture-service";
import { startEmbeddedClickHouse } from "@holdfast/clickhouse-embedded";
import type { ObjectStore } from "@holdfast/object-store";
import { onTestFinished } from "vitest";
import { patient } from "./helpers.js";

const schema = { name: "frames", version: 1, fields: { sensor: "String" }, orderBy: ["sensor"] } as const;

/** A catalog of one record, whose pack is in the store, in an embedded ClickHouse that is stopped after the test. */
export interface OneFrame {
  readonly payload: Buffer;
  /** Writes a configuration file with this `store` and gives the flags that name it. */
  flags(name: string, store: object): readonly string[];
}

/** Publishes a record through a capture service. Its files are in `dir`. */
export async function publishOneFrame(dir: string, store: ObjectStore): Promise<OneFrame> {
  const engine = await startEmbeddedClickHouse({ dataDir: join(dir, "clickhouse") });
  onTestFinished(() => engine.stop());
  const service = createCaptureService({
    schema: defineCaptureSchema(schema),
    store,
    catalog: { url: engine.url, requestTimeoutMs: 600_000 },
    lease: { ttlMs: 600_000, publishTimeoutMs: 60_000 },
    spool: { directory: join(dir, "spool") },
  });
  await service.start();
  const payload = Buffer.from("what the sensor saw");
  const record = { scope: { tenant: "t", session: "s" }, fields: { sensor: "left" }, payload };
  await (await service.append(record)).durable();
  if (!(await service.flush(600_000))) throw new Error("the record was not published");
  await service.stop();
  writeFileSync(join(dir, "frames.json"), JSON.stringify(schema));
  return {
    payload,
    flags(name, configured) {
      const config = { catalog: { url: engine.url }, schema: "frames.json", store: configured };
      writeFileSync(join(dir, name), JSON.stringify(config));
      return ["--config", join(dir, name), ...patient];
    },
  };
}
