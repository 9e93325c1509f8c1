import type { Body, PutOptions } from "@holdfast/object-store";
import type { Settings } from "./options.js";
import type { Progress } from "./requests.js";
import { generationOf } from "./resource.js";

/** A put under way. */
export type Put = {
  readonly key: string;
  readonly body: Body;
  readonly size: number;
  readonly options: PutOptions;
  readonly signal: AbortSignal;
  readonly progress: Progress;
};

/** A mode's condition: generation 0 is "nothing is there". */
export function conditionOf(mode: PutOptions["mode"]): { readonly ifGenerationMatch?: string } {
  if (mode === "overwrite") return {};
  return { ifGenerationMatch: mode === "create" ? "0" : generationOf(mode.ifMatch) };
}

/**
 * What is said of a new object, as JSON. The vendor's code replaces `{{projectId}}` wherever it stands, in the middle of a value too: so
 * no two braces stand beside each other. Outside of strings they never do here.
 */
export function describe(s: Settings, put: Put, crc32c: string): string {
  const { metadata, contentType } = put.options;
  const properties = {
    ...s.properties,
    name: s.keyPrefix + put.key,
    contentType: contentType ?? plainType,
    crc32c,
    ...(metadata === undefined ? {} : { metadata }),
  };
  return JSON.stringify(properties).replaceAll("{{", "{\\u007b");
}

/** The type of an object that is given none. */
export const plainType = "application/octet-stream";
