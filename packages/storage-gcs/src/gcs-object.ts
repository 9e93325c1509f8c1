/** What GCS says of an object. */
export type Resource = {
  /** The full name, `keyPrefix` included. */
  readonly name: string;
  readonly size: number;
  /** A number that no other object of this name ever had: the etag of the contract. */
  readonly generation: string;
  /** Counts the changes of the object's metadata. */
  readonly metageneration: string;
  /** Base64; undefined from a server that keeps none. */
  readonly crc32c: string | undefined;
  readonly metadata: Readonly<Record<string, string>>;
  readonly createdMs: number;
};
