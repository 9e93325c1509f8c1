import { ObjectStoreError } from "./errors.js";

/** The most metadata of one object: bytes of all names and values together (the limit of S3). */
export const maxMetadataBytes = 2048;

const nameRule = /^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$/;
const valueRule = /^(?:[!-~](?:[ -~]*[!-~])?)?$/;

/**
 * Refuses metadata that would not come back from every store as it was put, with `INVALID_METADATA`: names are 1 to 64 of
 * `a-z 0-9 -`, not starting or ending with `-` (they travel as HTTP headers, whose case is lost); values are printable ASCII
 * without a space at either end, and may be empty; all together at most 2048 bytes. Metadata is not secret: errors may show
 * names, never values.
 */
export function checkMetadata(metadata: Readonly<Record<string, string>>): void {
  let bytes = 0;
  for (const [name, value] of Object.entries(metadata)) {
    if (!nameRule.test(name)) {
      const rule = "use 1 to 64 of a-z, 0-9 and -, not starting or ending with -";
      throw new ObjectStoreError(
        "INVALID_METADATA",
        `the metadata name ${JSON.stringify(name)} is not allowed; ${rule}`,
      );
    }
    if (typeof value !== "string" || !valueRule.test(value)) {
      const rule = "use printable ASCII without a space at either end";
      throw new ObjectStoreError(
        "INVALID_METADATA",
        `the value of the metadata name "${name}" is not allowed; ${rule}`,
      );
    }
    bytes += name.length + value.length;
  }
  if (bytes > maxMetadataBytes) {
    throw new ObjectStoreError(
      "INVALID_METADATA",
      `the metadata is ${bytes} bytes of names and values, over the limit of ${maxMetadataBytes}; put less of it, or put it into the object`,
    );
  }
}
