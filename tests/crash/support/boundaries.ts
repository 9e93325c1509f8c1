/**
 * The moments at which a victim is killed: at those of the spool and the store from inside, at those of the catalog from
 * outside, by the proxy that sees its statements.
 */
const spool = [
  "during write begun",
  "after datasync begun",
  "after rename open",
  "after syncDirectory open",
  "after datasync open",
  "after link sealed",
  "after unlink open",
  "after rename identity",
  "before unlink sealed",
  "after unlink sealed",
  "start: after datasync open",
  "start: after link sealed",
] as const;
const store = ["before put", "after put", "after head"] as const;
const catalog = [
  "after record",
  "before snapshot_manifest",
  "after index_watermark",
  "before pack_inventory",
  "after publisher_lease",
] as const;

/** `random`: between any two of the things that are seen of a victim. */
export type Boundary = (typeof spool)[number] | (typeof store)[number] | (typeof catalog)[number] | "random";

/** All but `random`. */
export const boundaries: readonly Boundary[] = [...catalog, ...spool, ...store];

export const isCatalogBoundary = (boundary: Boundary): boolean => (catalog as readonly string[]).includes(boundary);
/** Needs a file that a killed predecessor left open. */
export const isStartBoundary = (boundary: Boundary): boolean => boundary.startsWith("start:");

/** A kill that is to happen. */
export type Planned = {
  readonly boundary: Boundary;
  /** So many groups of records are acknowledged before a moment counts. */
  readonly afterGroups: number;
};

/** What a victim is told. */
export type Orders = {
  readonly role: "publisher" | "capture-only";
  readonly catalogUrl: string;
  readonly schemaName: string;
  readonly spoolDirectory: string;
  readonly storeDirectory: string;
  /** Kills itself at the n-th time that it comes to this moment; null: it is killed from outside, or lives. */
  readonly boundary: string | null;
  readonly occurrence: number;
  /** Counts moments once so many groups are acknowledged. */
  readonly afterGroups: number;
  readonly lease: { readonly ttlMs: number; readonly publishTimeoutMs: number };
  /** First part of the ids of its records. */
  readonly name: string;
  /** Appends nothing, flushes, and stops. */
  readonly last: boolean;
};

/** What a victim reports. */
export type Report =
  | { readonly kind: "ready" }
  | { readonly kind: "started" }
  | { readonly kind: "appended"; readonly ids: readonly string[] }
  | { readonly kind: "acknowledged"; readonly ids: readonly string[] }
  /** It makes no progress: its requests fail again and again. */
  | { readonly kind: "stuck"; readonly status: string }
  | { readonly kind: "finished"; readonly drained: boolean; readonly status: string }
  | { readonly kind: "failed"; readonly message: string };

/** The last line of a victim that kills itself. */
export const killedAt = (boundary: string): string => `killed at ${boundary}\n`;

/** What the examiner reports. */
export type Findings = {
  /** captureId -> times visible in the catalog. */
  readonly visible: Readonly<Record<string, number>>;
  /** captureId -> times in the objects of the store. */
  readonly stored: Readonly<Record<string, number>>;
  /** Key of a pack -> publishes that made it visible. Readers show a record once, however often its pack was published. */
  readonly published: Readonly<Record<string, number>>;
};
