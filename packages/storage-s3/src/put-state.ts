import type { Body, PutOptions } from "@holdfast/object-store";
import type { Settings } from "./options.js";
import type { Progress } from "./requests.js";

/** A put under way. */
export type Put = {
  readonly key: string;
  readonly body: Body;
  readonly size: number;
  readonly options: PutOptions;
  readonly signal: AbortSignal;
  readonly progress: Progress;
};

/** What a store has answered to a whole object. */
export type Stored = {
  /** The etag of the answer, `""` when it has none. */
  readonly etag: string;
  /** Where the answer has none: the etag that these bytes have on stores that make it as S3 does. */
  readonly usualEtag?: string | undefined;
  /** Whether the answer shows that the bytes are there as sent. */
  readonly proved: boolean;
};

/** The headers of a mode's condition. */
export function conditionOf(s: Settings, mode: PutOptions["mode"]): { IfNoneMatch?: string; IfMatch?: string } {
  if (mode === "overwrite") return {};
  if (mode === "create") return { IfNoneMatch: "*" };
  return { IfMatch: s.quoteEtags ? `"${mode.ifMatch}"` : mode.ifMatch };
}
