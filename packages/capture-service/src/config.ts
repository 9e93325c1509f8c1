import type { Clock } from "@holdfast/deadline-http";
import type { LeaseOptions } from "@holdfast/lease-core";
import type { ObjectStore } from "@holdfast/object-store";
import type { CaptureSchema, Codec } from "@holdfast/pack-format";

/**
 * What a service does with the catalog.
 *
 * - `publisher`: takes the lease at the start or fails, uploads only while it holds it, indexes what it uploaded, gives up for
 *   good when another holder keeps it out for 2 × lease.ttlMs.
 * - `standby`: spools and uploads without the lease as well, and waits for it for ever; indexes while it holds it.
 * - `capture-only`: no lease, no ClickHouse: spools and uploads. A publisher elsewhere makes the packs visible.
 */
export type CaptureRole = "publisher" | "standby" | "capture-only";

/** How to reach the catalog. */
export type CatalogSettings = {
  /** `http://host:8123` or `https://…`, without user, password or path. */
  readonly url: string;
  readonly username?: string;
  readonly password?: string;
  readonly database?: string;
  /** Bound of one request. Default 60000; at least 2 × lease.publishTimeoutMs. */
  readonly requestTimeoutMs?: number;
};

/** The directory in which records wait for their upload. */
export type SpoolConfig = {
  /** Made when it does not exist. One service at a time owns it; it stays between runs, and is not copied. */
  readonly directory: string;
  /** Most bytes in the directory, reservations included. Default 10 GiB; at least 4 × 64 KiB. */
  readonly maxBytes?: number;
  /** Greatest pack. Default 64 MiB, or less where the store or maxBytes / 4 is less; at least 64 KiB, at most maxBytes / 2. */
  readonly maxPackBytes?: number;
  /** Most records of a pack, 1 to 1000000. Default 100000. */
  readonly maxPackRecords?: number;
  /** A pack is sealed this long after its first record at the latest. Default 1000. */
  readonly maxLingerMs?: number;
  /** Greatest payload. Default maxPackBytes; at most 256 MiB. */
  readonly maxRecordBytes?: number;
  /** Most bytes of admitted records in memory that are not on disk yet. Default 64 MiB. */
  readonly maxQueuedBytes?: number;
  /** How long `append` waits for room; 0 refuses at once with SPOOL_FULL. Default 2000. */
  readonly admissionTimeoutMs?: number;
  /** Default "none", which keeps payloads readable by byte range. */
  readonly codec?: Codec;
  /** Allows a network or shared file system: only when no other machine can see the directory. Default false. */
  readonly allowSharedFileSystem?: boolean;
};

/** Settings of a service; every duration in milliseconds. What does not fit together is refused with CONFIG_INVALID. */
export type CaptureServiceConfig<S extends CaptureSchema = CaptureSchema> = {
  /** Default "publisher". */
  readonly role?: CaptureRole;
  /** One schema = one catalog: its name is the table prefix, the lease name and the key prefix. */
  readonly schema: S;
  /** One bucket prefix holds one catalog: `v1/<schema name>/` of this store is the service's. */
  readonly store: ObjectStore;
  /** Required unless the role is capture-only. */
  readonly catalog?: CatalogSettings;
  readonly lease?: LeaseOptions & { readonly holder?: string };
  /** Pause between two rounds of uploading and publishing. Default 1000. */
  readonly publishIntervalMs?: number;
  /**
   * Gives the lease back when nothing was owed for this long, so that an idle catalog is not written to. Default: never. While it
   * is given back, what others uploaded is looked for every reconcile.fullIntervalMs only.
   */
  readonly releaseWhenIdleMs?: number;
  readonly spool: SpoolConfig;
  readonly upload?: {
    /** Uploads at a time, 1 to 64. Default 4. */
    readonly concurrency?: number;
    /** Bound of one upload. Default 120000. */
    readonly timeoutMs?: number;
  };
  readonly index?: {
    /** Packs of one pass, 1 to 1000. Default 64. */
    readonly packsPerPass?: number;
    /** Tries after which a pack that breaks a rule is set aside. Default 5. */
    readonly packAttempts?: number;
  };
  /** Looking for packs in the bucket that the catalog does not have. */
  readonly reconcile?: {
    /** During `start()`. Default true. */
    readonly onStart?: boolean;
    /** Default 30000; 0 is never. */
    readonly intervalMs?: number;
    /** Everything is listed, and not only what is new, this often. Default 3600000. */
    readonly fullIntervalMs?: number;
  };
  readonly clock?: Clock;
  /** Uniform in [0, 1). */
  readonly random?: () => number;
};
