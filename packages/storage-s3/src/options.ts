import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { S3Client, type S3ClientConfig, type ServerSideEncryption, type StorageClass } from "@aws-sdk/client-s3";
import { checkPrefix, maxKeyBytes, ObjectStoreError, systemRandom, type Capabilities } from "@holdfast/object-store";
import { systemClock, type Clock } from "@holdfast/deadline-http";

const MiB = 2 ** 20;
const maxParts = 10_000;
/** The largest object that one PUT may carry, by S3's rules. */
export const maxPutBytes = 5 * 2 ** 30;
/** Packs are at most 64 MiB by default and must go out in one PUT: one request, one checksum, one condition. */
const packBytes = 64 * MiB;

/**
 * How the store can check what it is sent.
 *
 * - `"crc32"`: `x-amz-checksum-crc32` as a header (never as a trailer). AWS checks it, keeps it and gives it back; stores that do not
 *   know it ignore it, and a few refuse it (501, or a signature that does not match).
 * - `"md5"`: `Content-MD5`, which every store of the protocol checks. Costs more of the processor. For Ceph, R2, B2 and the like.
 * - `"none"`: neither; only the size of what was stored is looked at.
 */
export type ChecksumMode = "crc32" | "md5" | "none";

/** When an object goes up in parts, and how. */
export type MultipartOptions = {
  /** Bytes; larger bodies go up in parts. Above 64 MiB, so that a pack is one PUT; default 128 MiB. */
  readonly thresholdBytes?: number;
  /** Bytes of a part, 5 MiB to 5 GiB; default 16 MiB. Grows by itself where 10,000 parts would not do. `concurrency` + 1 of them are in memory. */
  readonly partBytes?: number;
  /** Parts on their way at once for one object; default 4. */
  readonly concurrency?: number;
};

/** What every s3Store takes. */
type CommonOptions = {
  /** The bucket; it has to exist. */
  readonly bucket: string;
  /** Put in front of every key, kept out of what the store answers: `"team-a/"`. Takes bytes from the 1,024 of a key. Default none. */
  readonly keyPrefix?: string;
  /** See {@link ChecksumMode}; default `"crc32"`. */
  readonly checksum?: ChecksumMode;
  readonly multipart?: MultipartOptions;
  /**
   * Whether the store looks at `If-None-Match` and `If-Match` on CompleteMultipartUpload. AWS does, Ceph up to 16 does not. Without it a
   * conditional put is one PUT whatever its size, and objects are at most 5 GiB. Default: true for AWS itself, false for any endpoint or client
   * that is given.
   */
  readonly conditionalComplete?: boolean;
  /** Whether the store honours `If-None-Match: *` on PUT; default true. `probe` of object-store finds out. */
  readonly create?: boolean;
  /** Whether the store honours `If-Match` on PUT, and with the etag in quotes or (Ceph up to 16) without; default `"quoted"`. */
  readonly ifMatch?: "quoted" | "unquoted" | false;
  /** Allows `http:`, where everybody on the way can read and change everything; default false. */
  readonly allowHttp?: boolean;
  readonly serverSideEncryption?: ServerSideEncryption;
  /** The KMS key; only with `serverSideEncryption` `"aws:kms"` or `"aws:kms:dsse"`. */
  readonly kmsKeyId?: string;
  readonly storageClass?: StorageClass;
  /** The account (12 digits) that must own the bucket, sent with every request. */
  readonly expectedBucketOwner?: string;
  /** How often one request is sent at most, while the signal allows; default 4. */
  readonly attempts?: number;
  /** Waits between attempts; default the machine's clock. */
  readonly clock?: Pick<Clock, "sleep" | "setTimer">;
  /** Numbers in [0, 1) that spread those waits; default the machine's randomness. */
  readonly random?: () => number;
};

/** A client of yours: its endpoint, credentials, retries and agents stay as they are, and the client is not changed. */
export type ClientOptions = CommonOptions & {
  readonly client: S3Client;
  /** Names the store in catalogs; must stay the same for as long as the objects do. Cannot be derived from a client. */
  readonly storeId: string;
};

/** Everything that makes a client. */
export type ConnectionOptions = CommonOptions & {
  readonly client?: undefined;
  /** Default: `s3:BUCKET`, with an endpoint `s3:HOST[:PORT]/BUCKET`; a `keyPrefix` is added. */
  readonly storeId?: string;
  /** `https://HOST[:PORT]`; default AWS. */
  readonly endpoint?: string;
  /** Default: what the SDK finds (environment, files); `us-east-1` when an endpoint is given. */
  readonly region?: string;
  /** Keys, a session token with them if need be, or a function that gives them; default: what the SDK finds. */
  readonly credentials?: S3ClientConfig["credentials"];
  /** `https://HOST/BUCKET/key` or `https://BUCKET.HOST/key`; default `"virtual"` for AWS, `"path"` for an endpoint. */
  readonly style?: "path" | "virtual";
  /** PEM of the certificate authorities to trust instead of the machine's; only over https. */
  readonly ca?: string;
  /** Sockets per host; default 50. */
  readonly maxSockets?: number;
};

/** What `s3Store` takes. */
export type S3StoreOptions = ClientOptions | ConnectionOptions;

/** The options, filled in and checked. */
export type Settings = {
  readonly client: S3Client;
  readonly bucket: string;
  readonly keyPrefix: string;
  readonly storeId: string;
  readonly capabilities: Capabilities;
  readonly checksum: ChecksumMode;
  readonly quoteEtags: boolean;
  readonly multipart: Required<MultipartOptions>;
  readonly conditionalComplete: boolean;
  readonly allowHttp: boolean;
  readonly attempts: number;
  readonly clock: Pick<Clock, "sleep" | "setTimer">;
  readonly random: () => number;
  /** Sent with every request. */
  readonly everywhere: { readonly Bucket: string; readonly ExpectedBucketOwner?: string };
  /** Sent with every new object. */
  readonly onWrite: {
    readonly ServerSideEncryption?: ServerSideEncryption;
    readonly SSEKMSKeyId?: string;
    readonly StorageClass?: StorageClass;
  };
};

/** Fills in and checks the options; `CONFIG_INVALID` names the one that cannot work. Sends nothing. */
export function settingsOf(o: S3StoreOptions): Settings {
  check(typeof o.bucket === "string" && /^[^\s/]{1,255}$/.test(o.bucket), "bucket must be the name of a bucket");
  const keyPrefix = o.keyPrefix ?? "";
  checkPrefix(keyPrefix, maxKeyBytes - 1);
  const attempts = o.attempts ?? 4;
  check(
    Number.isSafeInteger(attempts) && attempts >= 1,
    `attempts must be a whole number of at least 1, not ${attempts}`,
  );
  const conditionalComplete = o.conditionalComplete ?? (o.client === undefined && o.endpoint === undefined);
  checkEncryption(o);
  if (o.client === undefined) checkConnection(o);
  return {
    client: o.client ?? clientOf(o),
    bucket: o.bucket,
    keyPrefix,
    storeId: storeIdOf(o, keyPrefix),
    capabilities: {
      create: o.create ?? true,
      ifMatch: o.ifMatch !== false,
      metadata: true,
      maxObjectBytes: conditionalComplete ? 5 * 2 ** 40 : maxPutBytes,
      maxKeyBytes: maxKeyBytes - new TextEncoder().encode(keyPrefix).length,
    },
    checksum: checksumMode(o.checksum),
    quoteEtags: o.ifMatch !== "unquoted",
    multipart: multipartOf(o.multipart ?? {}),
    conditionalComplete,
    allowHttp: o.allowHttp ?? false,
    attempts,
    clock: o.clock ?? systemClock,
    random: o.random ?? systemRandom,
    everywhere: {
      Bucket: o.bucket,
      ...(o.expectedBucketOwner === undefined ? {} : { ExpectedBucketOwner: o.expectedBucketOwner }),
    },
    onWrite: {
      ...(o.serverSideEncryption === undefined ? {} : { ServerSideEncryption: o.serverSideEncryption }),
      ...(o.kmsKeyId === undefined ? {} : { SSEKMSKeyId: o.kmsKeyId }),
      ...(o.storageClass === undefined ? {} : { StorageClass: o.storageClass }),
    },
  };
}

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new ObjectStoreError("CONFIG_INVALID", what);
}

function checksumMode(mode: ChecksumMode = "crc32"): ChecksumMode {
  check(
    ["crc32", "md5", "none"].includes(mode),
    `checksum must be "crc32", "md5" or "none", not ${JSON.stringify(mode)}`,
  );
  return mode;
}

function checkEncryption(o: CommonOptions): void {
  const kms = o.serverSideEncryption?.startsWith("aws:kms") === true;
  check(o.kmsKeyId === undefined || kms, 'kmsKeyId needs serverSideEncryption "aws:kms" or "aws:kms:dsse"');
  const owner = o.expectedBucketOwner ?? "000000000000";
  check(/^\d{12}$/.test(owner), "expectedBucketOwner must be the 12 digits of an account");
}

function checkConnection(o: ConnectionOptions): void {
  if (o.endpoint === undefined) return;
  // The value is not shown: somebody may have put credentials into it.
  check(URL.canParse(o.endpoint), "endpoint must be a URL such as https://s3.example.com");
  const { protocol, username, password, search, hash } = new URL(o.endpoint);
  check(username === "" && password === "", "endpoint must not carry credentials; give them as credentials");
  check(search === "" && hash === "", "endpoint must have neither ? nor #");
  check(protocol === "https:" || protocol === "http:", `endpoint must begin with https://, not ${protocol}//`);
  check(
    protocol === "https:" || o.allowHttp === true,
    "endpoint is http:, where everybody on the way can read and change everything; use https, or set allowHttp: true",
  );
  check(protocol === "https:" || o.ca === undefined, "ca has a meaning over https only");
}

function storeIdOf(o: S3StoreOptions, keyPrefix: string): string {
  if (o.storeId !== undefined) {
    check(o.storeId !== "", "storeId must not be empty");
    return o.storeId;
  }
  check(
    o.client === undefined,
    "storeId must be given with a client: a name for this bucket that stays as long as its objects",
  );
  const place = o.endpoint === undefined ? o.bucket : `${new URL(o.endpoint).host}/${o.bucket}`;
  return keyPrefix === "" ? `s3:${place}` : `s3:${place}/${keyPrefix}`;
}

function multipartOf(o: MultipartOptions): Required<MultipartOptions> {
  const { thresholdBytes = 128 * MiB, partBytes = 16 * MiB, concurrency = 4 } = o;
  check(
    Number.isSafeInteger(thresholdBytes) && thresholdBytes > packBytes && thresholdBytes <= maxPutBytes,
    `multipart.thresholdBytes must be above ${packBytes} (a pack is one PUT) and at most ${maxPutBytes}, not ${thresholdBytes}`,
  );
  check(
    Number.isSafeInteger(partBytes) && partBytes >= 5 * MiB && partBytes <= maxPutBytes,
    `multipart.partBytes must be between ${5 * MiB} and ${maxPutBytes}, not ${partBytes}`,
  );
  check(
    Number.isSafeInteger(concurrency) && concurrency >= 1,
    `multipart.concurrency must be a whole number of at least 1, not ${concurrency}`,
  );
  return { thresholdBytes, partBytes, concurrency };
}

/** Bytes of a part of an object of this size: what was asked for, or what 10,000 parts need. */
export const partBytesFor = (size: number, wanted: number): number => Math.max(wanted, Math.ceil(size / maxParts));

const silent = {
  trace: () => undefined,
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

function clientOf(o: ConnectionOptions): S3Client {
  const maxSockets = o.maxSockets ?? 50;
  const region = o.region ?? (o.endpoint === undefined ? undefined : "us-east-1");
  return new S3Client({
    ...(region === undefined ? {} : { region }),
    ...(o.endpoint === undefined ? {} : { endpoint: o.endpoint }),
    ...(o.credentials === undefined ? {} : { credentials: o.credentials }),
    forcePathStyle: (o.style ?? (o.endpoint === undefined ? "virtual" : "path")) === "path",
    // Attempts are ours: only who sees each of them can tell what may have been stored.
    maxAttempts: 1,
    // Checksums are ours too: as a header, since not every store takes them behind the body.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
    logger: silent,
    // Agents of our own: with those that it makes itself the SDK opens a new connection for each body of 2 MiB and more.
    requestHandler: {
      httpAgent: new HttpAgent({ keepAlive: true, maxSockets }),
      httpsAgent: new HttpsAgent({ keepAlive: true, maxSockets, ...(o.ca === undefined ? {} : { ca: o.ca }) }),
    },
  });
}
