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

// A path, and not the key itself put there by mistake: as JSON, as PEM, or in base64, where it is longer than any path that people write.
const keyFile = text
  .max(1000, "must be the path of a key file")
  .refine((path) => !/[\r\n]|private_key|PRIVATE KEY/.test(path), "must be the path of a key file, not what is in it");

// The same of storage-gcs's options.
const googleBucket = z.strictObject({
  kind: z.literal("gcs"),
  bucket: text,
  apiEndpoint: text.exactOptional(),
  keyPrefix: z.string().exactOptional(),
  keyFilename: keyFile.exactOptional(),
  useAuthWithCustomEndpoint: z.boolean().exactOptional(),
  allowHttp: z.boolean().exactOptional(),
  userProject: text.exactOptional(),
  storeId: text.exactOptional(),
});

/** `store` of the configuration file. */
export const storeShape = z.discriminatedUnion("kind", [directory, bucket, googleBucket]);

/** A store as the configuration file names it. */
export type StoreConfig = z.infer<typeof storeShape>;
/** A bucket as the configuration file names it: of S3, or of Google Cloud Storage. */
export type BucketConfig = Exclude<StoreConfig, { kind: "fs" }>;

const secretNames = /^store\..*(?:key|secret|token|password|credential)/i;

const insteadOfKeys = {
  s3: "name environment variables in store.credentials, or leave it out for what the AWS SDK finds",
  gcs: "name a service account's key file in store.keyFilename, or leave it out for what the Google SDK finds",
};

/** What to do instead, for a knob that does not exist in `within`, part of `store`, and looks like a key; else nothing. */
export function secretHint(knob: string, within: unknown): string {
  if (!secretNames.test(knob)) return "";
  const google = typeof within === "object" && within !== null && "kind" in within && within.kind === "gcs";
  return ` (no keys in this file: ${google ? insteadOfKeys.gcs : insteadOfKeys.s3})`;
}

/** Knobs whose wrong value is not shown: somebody may have put a key into it, or a URL with one. */
export const maySecretlyHold = (knob: string): boolean =>
  /^store(?:$|\.(?:credentials|endpoint|apiEndpoint|keyFilename)(?:$|\.))/.test(knob);
