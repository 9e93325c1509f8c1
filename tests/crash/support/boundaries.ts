/**
 * The moments at which a victim is killed. A victim's file layer and store kill it at those of the first two groups, from
 * inside; the proxy before the catalog kills it at those of the third, from outside; `random` is a moment of the clock.
 */
export const spoolBoundaries = [
  "after open begun",
  "during write begun",
  "after datasync begun",
  "after rename open",
  "after syncDirectory open",
  "after write open",
  "after datasync open",
  "after link sealed",
  "after unlink open",
  "after rename identity",
  "before unlink sealed",
  "after unlink sealed",
  "start: after datasync open",
  "start: after link sealed",
] as const;

export const storeBoundaries = ["before put", "after put", "after head", "after get"] as const;

export const catalogBoundaries = [
  "before version_claim",
  "after record",
  "before snapshot_manifest",
  "after index_watermark",
  "before pack_inventory",
  "after pack_inventory",
  "after publisher_lease",
] as const;

export type Boundary =
  (typeof spoolBoundaries)[number] | (typeof storeBoundaries)[number] | (typeof catalogBoundaries)[number] | "random";

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
  /** First part of the ids of its records. */
  readonly name: string;
  /** Stops appending, flushes, and stops. */
  readonly last: boolean;
};

/** What a victim says. */
export type Report =
  | { readonly kind: "ready" }
  | { readonly kind: "started" }
  | { readonly kind: "appended"; readonly ids: readonly string[] }
  | { readonly kind: "acknowledged"; readonly ids: readonly string[] }
  | { readonly kind: "finished"; readonly drained: boolean; readonly status: string }
  | { readonly kind: "failed"; readonly message: string };

/** What the examiner says. */
export type Findings = {
  /** captureId -> times visible in the catalog. */
  readonly visible: Readonly<Record<string, number>>;
  /** captureId -> times in the objects of the store. */
  readonly stored: Readonly<Record<string, number>>;
};
