/**
 * The limits of pack file version 0. A writer refuses to go over one; a reader refuses a file that did, before it
 * allocates anything of the claimed size.
 */
export const limits = {
  /** Bytes of one payload. */
  payloadBytes: 256 * 1024 * 1024,
  /** Bytes of metadata of one block, and so of one record. */
  metadataBytes: 1024 * 1024,
  /** Metadata and payload bytes of a block that holds more than one record. */
  blockBytes: 1024 * 1024,
  /** Records of one block: reading so many takes some ten milliseconds, in which nothing else runs. */
  blockRecords: 1024,
  /** Records of one pack. */
  packRecords: 1_000_000,
  /** Bytes of the index of one pack. */
  indexBytes: 64 * 1024 * 1024,
  /** Bytes (UTF-8) of a capture id, a tenant or a session, each at least 1. */
  nameBytes: 512,
  /** Fields of one schema. */
  fields: 256,
  /** Bytes of the schema declaration. */
  schemaBytes: 64 * 1024,
  /** Sequence numbers are below this: 16 decimal digits. */
  sequence: 10n ** 16n,
  /** Largest `alignment`. */
  alignment: 4096,
} as const;
