import { z } from "zod";

const text = z.string().min(1);
const variableName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, "must be the name of an environment variable")
  .max(100, "must be the name of an environment variable");

const directory = z.strictObject({ kind: z.literal("fs"), directory: text, storeId: text.exactOptional() });

// What reading packs needs of storage-s3's options, under their own names. Keys are named, never given: this file gets copied and committed.
const bucket = z.strictObject({
  kind: z.literal("s3"),
  bucket: text,
  endpoint: text.exactOptional(),
  region: text.exactOptional(),
  style: z.enum(["path", "virtual"]).exactOptional(),
  keyPrefix: z.string().exactOptional(),
  checksum: z.enum(["crc32", "md5", "none"]).exactOptional(),
  ifMatch: z.union([z.enum(["quoted", "unquoted"]), z.literal(false)]).exactOptional(),
  allowHttp: z.boolean().exactOptional(),
  caFile: text.exactOptional(),
  expectedBucketOwner: text.exactOptional(),
  storeId: text.exactOptional(),
  credentials: z
    .strictObject({
      accessKeyIdEnv: variableName,
      secretAccessKeyEnv: variableName,
      sessionTokenEnv: variableName.exactOptional(),
    })
    .exactOptional(),
});

/** `store` of the configuration file. */
export const storeShape = z.discriminatedUnion("kind", [directory, bucket]);

/** A store as the configuration file names it. */
export type StoreConfig = z.infer<typeof storeShape>;
/** A bucket as the configuration file names it. */
export type BucketConfig = Extract<StoreConfig, { kind: "s3" }>;

const secretNames = /^store\..*(?:key|secret|token|password|credential)/i;

/** What to do instead, for a knob of `store` that does not exist and looks like a key; else nothing. */
export const secretHint = (knob: string): string =>
  secretNames.test(knob)
    ? " (no keys in this file: name environment variables in store.credentials, or leave it out for what the AWS SDK finds)"
    : "";

/** Knobs whose wrong value is not shown: somebody may have put a key into it, or a URL with one. */
export const maySecretlyHold = (knob: string): boolean => /^store(?:$|\.(?:credentials|endpoint)(?:$|\.))/.test(knob);
