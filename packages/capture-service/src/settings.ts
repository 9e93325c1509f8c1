import { resolve } from "node:path";
import { systemClock, type Clock } from "@holdfast/deadline-http";
import { leaseConfig, type LeaseOptions } from "@holdfast/lease-core";
import type { ObjectStore } from "@holdfast/object-store";
import { limits, schemaIdOf, type CaptureSchema } from "@holdfast/pack-format";
import { Knobs } from "./knobs.js";
import type { CaptureRole, CaptureServiceConfig, CatalogSettings } from "./config.js";
import { CaptureError } from "./errors.js";
import type { SpoolSettings } from "./spool/spool.js";

/** A configuration with all defaults filled in and every relation checked. */
export type Settings = {
  readonly role: CaptureRole;
  readonly schema: CaptureSchema;
  readonly store: ObjectStore;
  readonly catalog: (CatalogSettings & { readonly requestTimeoutMs: number }) | null;
  readonly lease: LeaseOptions & { readonly holder?: string };
  readonly publishIntervalMs: number;
  readonly releaseWhenIdleMs: number | null;
  readonly spool: SpoolSettings;
  readonly maxRecordBytes: number;
  readonly allowSharedFileSystem: boolean;
  readonly upload: { readonly concurrency: number; readonly timeoutMs: number };
  readonly index: { readonly packsPerPass: number; readonly packAttempts: number };
  readonly reconcile: { readonly onStart: boolean; readonly intervalMs: number; readonly fullIntervalMs: number };
  readonly clock: Clock;
  readonly random: (() => number) | undefined;
};

const kib = 1024;
const mib = 1024 * kib;
const leastPackBytes = 64 * kib;
const longestMs = 365 * 24 * 3_600_000;

/** Fills in the defaults and checks every setting and relation. CONFIG_INVALID with the full path and the value; SCHEMA_INVALID. */
export function settingsOf(config: CaptureServiceConfig): Settings {
  const top = new Knobs("", config);
  top.only(
    "role schema store catalog lease publishIntervalMs releaseWhenIdleMs spool upload index reconcile clock random",
  );
  const role = top.choice("role", ["publisher", "standby", "capture-only"], "publisher");
  const store = storeOf(config);
  const schema = schemaOf(config);
  const catalog = catalogOf(top, role);
  leaseConfig({
    ...(config.lease === undefined ? {} : { lease: leaseOptions(config.lease) }),
    ...(catalog === null ? {} : { catalog: { requestTimeoutMs: catalog.requestTimeoutMs } }),
  });
  const upload = top.section("upload");
  upload.only("concurrency timeoutMs");
  const index = top.section("index");
  index.only("packsPerPass packAttempts");
  const reconcile = top.section("reconcile");
  reconcile.only("onStart intervalMs fullIntervalMs");
  return {
    role,
    schema,
    store,
    catalog,
    lease: config.lease ?? {},
    publishIntervalMs: top.whole("publishIntervalMs", { least: 1, most: longestMs, otherwise: 1_000 }),
    releaseWhenIdleMs:
      config.releaseWhenIdleMs === undefined
        ? null
        : top.whole("releaseWhenIdleMs", { least: 1, most: longestMs, otherwise: 1 }),
    ...spoolOf(top.section("spool"), schema, store),
    upload: {
      concurrency: upload.whole("concurrency", { least: 1, most: 64, otherwise: 4 }),
      timeoutMs: upload.whole("timeoutMs", { least: 1, most: longestMs, otherwise: 120_000 }),
    },
    index: {
      packsPerPass: index.whole("packsPerPass", { least: 1, most: 1_000, otherwise: 64 }),
      packAttempts: index.whole("packAttempts", { least: 1, most: 1_000, otherwise: 5 }),
    },
    reconcile: {
      onStart: reconcile.flag("onStart", true),
      intervalMs: reconcile.whole("intervalMs", { least: 0, most: longestMs, otherwise: 30_000 }),
      fullIntervalMs: reconcile.whole("fullIntervalMs", { least: 1, most: longestMs, otherwise: 3_600_000 }),
    },
    clock: config.clock ?? systemClock,
    random: config.random,
  };
}

function storeOf({ store }: CaptureServiceConfig): ObjectStore {
  const contract = (store as { contract?: number } | undefined)?.contract;
  if (contract === 1) return store;
  throw new CaptureError(
    "CONFIG_INVALID",
    contract === undefined
      ? "store is missing or is no object store: give it what fsStore(), s3Store() or the like returned."
      : `store has contract ${contract}; this version works with stores of contract 1.`,
  );
}

function schemaOf({ schema }: CaptureServiceConfig): CaptureSchema {
  if (typeof (schema as unknown) !== "object" || (schema as unknown) === null) {
    throw new CaptureError("CONFIG_INVALID", "schema is missing: declare one with defineCaptureSchema().");
  }
  schemaIdOf(schema);
  return schema;
}

function catalogOf(top: Knobs, role: CaptureRole): Settings["catalog"] {
  const catalog = top.section("catalog");
  catalog.only("url username password database requestTimeoutMs");
  if (role === "capture-only") {
    if (top.has("catalog"))
      throw top.wrong("catalog", "given", "left out when role is capture-only, which uses no ClickHouse");
    if (top.has("lease")) throw top.wrong("lease", "given", "left out when role is capture-only, which takes no lease");
    return null;
  }
  if (!top.has("catalog")) {
    throw top.wrong(
      "catalog",
      "missing",
      `an object with the url of a ClickHouse server when role is ${role}; a role that needs none is "capture-only"`,
    );
  }
  const url = catalog.text("url");
  if (!isServerUrl(url)) {
    // The value is not repeated: a URL may carry a password.
    throw catalog.wrong(
      "url",
      "not usable",
      "http://host:port or https://host:port, with user and password in catalog.username and catalog.password",
    );
  }
  return {
    url,
    ...catalog.texts("username", "password", "database"),
    requestTimeoutMs: catalog.whole("requestTimeoutMs", { least: 1, most: longestMs, otherwise: 60_000 }),
  };
}

function isServerUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const { protocol, username, password, pathname, search } = new URL(text);
  const plain = username === "" && password === "" && pathname === "/" && search === "";
  return plain && (protocol === "http:" || protocol === "https:");
}

function spoolOf(
  knobs: Knobs,
  schema: CaptureSchema,
  store: ObjectStore,
): Pick<Settings, "spool" | "maxRecordBytes" | "allowSharedFileSystem"> {
  knobs.only(
    "directory maxBytes maxPackBytes maxPackRecords maxLingerMs maxRecordBytes maxQueuedBytes admissionTimeoutMs codec allowSharedFileSystem",
  );
  const greatest = Number.MAX_SAFE_INTEGER;
  const maxBytes = knobs.whole("maxBytes", { least: 4 * leastPackBytes, most: greatest, otherwise: 10 * 1024 * mib });
  const storeBytes = store.capabilities.maxObjectBytes;
  const usual = Math.max(leastPackBytes, Math.min(64 * mib, Math.floor(maxBytes / 4), storeBytes));
  const maxPackBytes = knobs.whole("maxPackBytes", { least: leastPackBytes, most: greatest, otherwise: usual });
  if (maxPackBytes > maxBytes / 2) {
    throw knobs.wrong(
      "maxPackBytes",
      String(maxPackBytes),
      `at most half of spool.maxBytes, which is ${maxBytes}, so that a pack can be written again after a failed write`,
    );
  }
  if (maxPackBytes > storeBytes) {
    throw knobs.wrong(
      "maxPackBytes",
      String(maxPackBytes),
      `at most ${storeBytes}, the greatest object of store ${store.storeId}`,
    );
  }
  const maxRecordBytes = knobs.whole("maxRecordBytes", {
    least: 0,
    most: limits.payloadBytes,
    otherwise: Math.min(maxPackBytes, limits.payloadBytes),
  });
  if (maxRecordBytes > maxPackBytes) {
    throw knobs.wrong("maxRecordBytes", String(maxRecordBytes), `at most spool.maxPackBytes, which is ${maxPackBytes}`);
  }
  return {
    maxRecordBytes,
    allowSharedFileSystem: knobs.flag("allowSharedFileSystem", false),
    spool: {
      directory: resolve(knobs.text("directory")),
      schema,
      codec: knobs.choice("codec", ["none", "gzip"], "none"),
      maxBytes,
      maxPackBytes,
      maxPackRecords: knobs.whole("maxPackRecords", { least: 1, most: limits.packRecords, otherwise: 100_000 }),
      maxLingerMs: knobs.whole("maxLingerMs", { least: 0, most: longestMs, otherwise: 1_000 }),
      maxQueuedBytes: knobs.whole("maxQueuedBytes", { least: 1, most: greatest, otherwise: 64 * mib }),
      admissionTimeoutMs: knobs.whole("admissionTimeoutMs", { least: 0, most: longestMs, otherwise: 2_000 }),
    },
  };
}

/** The options of the lease itself. */
export function leaseOptions(lease: LeaseOptions & { holder?: string }): LeaseOptions {
  const options = { ...lease };
  delete options.holder;
  return options;
}
