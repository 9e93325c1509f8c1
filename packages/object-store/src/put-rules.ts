import { checkBodySize } from "./body.js";
import { ObjectStoreError } from "./errors.js";
import { checkKey } from "./keys.js";
import { checkMetadata } from "./metadata.js";
import type { Body, Capabilities, PutOptions } from "./store.js";

const contentTypeRule = /^[!-~](?:[ -~]{0,254}[!-~])?$/;

/**
 * Everything about a put that can be refused before a byte of it is sent, in one call for the first line of every store's `put`:
 * `INVALID_KEY`, `UNSUPPORTED` (a mode, or metadata, that `capabilities` does not declare; a mode that does not exist),
 * `INVALID_METADATA` (a content type that is not 1 to 256 printable ASCII without a space at either end, too), `TOO_LARGE`.
 *
 * A mode that does not exist is refused and not taken for `overwrite`: plain JavaScript with a misspelled `"create"` would lose data.
 */
export function checkPut(key: string, body: Body, o: PutOptions, capabilities: Capabilities): void {
  checkKey(key, capabilities.maxKeyBytes);
  checkMode(o.mode, capabilities);
  const { metadata, contentType } = o;
  if (!capabilities.metadata && (contentType !== undefined || Object.keys(metadata ?? {}).length > 0)) {
    throw unsupported("metadata", "this store keeps neither metadata nor a content type; put without them");
  }
  checkMetadata(metadata ?? {});
  if (contentType !== undefined && !contentTypeRule.test(contentType)) {
    const rule = "use 1 to 256 printable ASCII without a space at either end";
    throw new ObjectStoreError(
      "INVALID_METADATA",
      `the content type ${JSON.stringify(contentType)} is not allowed; ${rule}`,
    );
  }
  checkBodySize(body, capabilities.maxObjectBytes);
}

/** Refuses a put's mode that does not exist or that the store does not declare, with `UNSUPPORTED`. */
export function checkMode(mode: PutOptions["mode"], capabilities: Pick<Capabilities, "create" | "ifMatch">): void {
  if (mode === "overwrite") return;
  if (mode === "create") {
    if (capabilities.create) return;
    throw unsupported("create", "it cannot create atomically against other writers; use another store");
  }
  const etag: unknown = (mode as { readonly ifMatch?: unknown } | null | undefined)?.ifMatch;
  if (typeof mode !== "object" || typeof etag !== "string" || etag === "") {
    throw new ObjectStoreError(
      "UNSUPPORTED",
      `a put's mode is "create", "overwrite" or { ifMatch: etag }, and not ${JSON.stringify(mode)}`,
    );
  }
  if (!capabilities.ifMatch) {
    throw unsupported("ifMatch", "it cannot replace conditionally against other writers; create a new key instead");
  }
}

function unsupported(capability: string, advice: string): ObjectStoreError {
  return new ObjectStoreError("UNSUPPORTED", `the store does not declare capabilities.${capability}: ${advice}`);
}
