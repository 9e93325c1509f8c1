import { Storage, type StorageOptions } from "@google-cloud/storage";
import { systemClock, type Clock } from "@holdfast/deadline-http";
import { bind } from "@holdfast/deadline-http/gcs";
import { checkPrefix, maxKeyBytes, ObjectStoreError, systemRandom, type Capabilities } from "@holdfast/object-store";
import { Remembered } from "./remembered.js";

const MiB = 2 ** 20;
/** Chunks of a resumable upload have to be multiples of this, by the rules of GCS. */
const chunkUnit = 256 * 1024;

/** When an object is uploaded through a session that can continue after an interruption, and how. */
export type ResumableOptions = {
  /** Bytes; larger bodies are uploaded through a session, all others in one request. Default 128 MiB. */
  readonly thresholdBytes?: number;
  /** Bytes of one request of a session, a multiple of 256 KiB; kept in memory until the server has them. Default 16 MiB. */
  readonly chunkBytes?: number;
};

/** What every gcsStore takes. */
type CommonOptions = {
  /** The bucket; it has to exist. */
  readonly bucket: string;
  /** Put in front of every key and removed from what the store returns: `"team-a/"`. Takes bytes from the 1,024 of a key. Default none. */
  readonly keyPrefix?: string;
  readonly resumable?: ResumableOptions;
  /** Allows `http:`, where everyone on the way can read and change everything; default false. */
  readonly allowHttp?: boolean;
  /** The KMS key of new objects: `projects/P/locations/L/keyRings/R/cryptoKeys/K`. Default: the bucket's. */
  readonly kmsKeyName?: string;
  /** The storage class of new objects. Default: the bucket's. */
  readonly storageClass?: "STANDARD" | "NEARLINE" | "COLDLINE" | "ARCHIVE";
  /** The project that is billed for every request, which a bucket whose requester pays demands. */
  readonly userProject?: string;
  /** How often one request is sent at most, while the signal allows; default 4. */
  readonly attempts?: number;
  /** The bound of fetching an access token, which no call's signal cuts because calls share it; default 30,000 ms. */
  readonly tokenTimeoutMs?: number;
  /** Waits between attempts; default the machine's clock. */
  readonly clock?: Pick<Clock, "sleep" | "setTimer">;
  /** Numbers in [0, 1) that spread those waits; default the machine's randomness. */
  readonly random?: () => number;
};

/** A client of yours, of `@google-cloud/storage` 7 or 8. It is not changed; its own retries do not apply to this store. */
export type ClientOptions = CommonOptions & {
  readonly client: Storage;
  /** Names the store in catalogs; must stay the same for as long as the objects do. Cannot be derived from a client. */
  readonly storeId: string;
};

/** Everything that makes a client. */
export type ConnectionOptions = CommonOptions & {
  readonly client?: undefined;
  /** Default: `gcs:BUCKET`, with another endpoint `gcs:HOST[:PORT]/BUCKET`; a `keyPrefix` is added. */
  readonly storeId?: string;
  /** `https://HOST[:PORT]`; default `STORAGE_EMULATOR_HOST` of the environment, else Google. */
  readonly apiEndpoint?: string;
  /** `client_email` and `private_key` of a service account; default: what the SDK finds. */
  readonly credentials?: { readonly client_email: string; readonly private_key: string };
  /** The path of a service account's key file; default: what the SDK finds. */
  readonly keyFilename?: string;
  /** Whether another endpoint than Google's is sent a token; default: whether `credentials` or `keyFilename` is given. */
  readonly useAuthWithCustomEndpoint?: boolean;
};

/** What `gcsStore` takes. */
export type GcsStoreOptions = ClientOptions | ConnectionOptions;

/** The options, filled in and checked. */
export type Settings = {
  /** Bound by deadline-http, with its retries off: attempts are this package's. */
  readonly client: Storage;
  /** `https://HOST[:PORT]`, without a slash at the end. */
  readonly endpoint: string;
  readonly bucket: string;
  readonly keyPrefix: string;
  readonly storeId: string;
  readonly capabilities: Capabilities;
  readonly resumable: Required<ResumableOptions>;
  readonly attempts: number;
  readonly clock: Pick<Clock, "sleep" | "setTimer">;
  readonly random: () => number;
  /** Parameters of every request. */
  readonly everywhere: Readonly<Record<string, string>>;
  /** Parameters of every request that makes an object. */
  readonly onWrite: Readonly<Record<string, string>>;
  /** Properties of every new object. */
  readonly properties: Readonly<Record<string, string>>;
  readonly remembered: Remembered;
};

/** Fills in and checks the options; `CONFIG_INVALID` names the one that cannot work. Sends nothing. */
export function settingsOf(o: GcsStoreOptions): Settings {
  checkNames(o);
  const bucketRule = "3 to 222 of a-z, 0-9, -, _ and ., beginning and ending with a letter or digit";
  check(isName(o.bucket), `bucket is ${shown(o.bucket)}; give the name of a bucket: ${bucketRule}`);
  const keyPrefix = o.keyPrefix ?? "";
  checkPrefix(keyPrefix, maxKeyBytes - 1);
  const { attempts = 4, tokenTimeoutMs = 30_000 } = o;
  check(Number.isSafeInteger(attempts) && attempts >= 1, `attempts is ${attempts}; give a whole number of at least 1`);
  check(
    Number.isFinite(tokenTimeoutMs) && tokenTimeoutMs > 0,
    `tokenTimeoutMs is ${tokenTimeoutMs}; give a number of milliseconds above 0`,
  );
  checkWrites(o);
  const client = o.client ?? clientOf(o);
  const endpoint = endpointOf(client, o);
  return {
    client: bind(client, { maxAttempts: 1, tokenTimeoutMs }),
    endpoint,
    bucket: o.bucket,
    keyPrefix,
    storeId: storeIdOf(o, endpoint, keyPrefix),
    capabilities: {
      create: true,
      ifMatch: true,
      metadata: true,
      maxObjectBytes: 5 * 2 ** 40,
      maxKeyBytes: maxKeyBytes - new TextEncoder().encode(keyPrefix).length,
    },
    resumable: resumableOf(o.resumable ?? {}),
    attempts,
    clock: o.clock ?? systemClock,
    random: o.random ?? systemRandom,
    everywhere: o.userProject === undefined ? {} : { userProject: o.userProject },
    onWrite: o.kmsKeyName === undefined ? {} : { kmsKeyName: o.kmsKeyName },
    properties: o.storageClass === undefined ? {} : { storageClass: o.storageClass },
    remembered: new Remembered(),
  };
}

function check(holds: boolean, what: string): asserts holds {
  if (!holds) throw new ObjectStoreError("CONFIG_INVALID", what);
}

const shown = (value: unknown): string => (value === undefined ? "undefined" : JSON.stringify(value));

const isName = (bucket: unknown): boolean =>
  typeof bucket === "string" && /^[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]$/.test(bucket);

const known = new Set(
  (
    "bucket keyPrefix resumable allowHttp kmsKeyName storageClass userProject attempts tokenTimeoutMs clock random client storeId " +
    "apiEndpoint credentials keyFilename useAuthWithCustomEndpoint"
  ).split(" "),
);
const ofConnections = ["apiEndpoint", "credentials", "keyFilename", "useAuthWithCustomEndpoint"];

/** A misspelled `kmsKeyName` would store everything under another key, without a word. */
function checkNames(o: GcsStoreOptions): void {
  for (const [name, value] of Object.entries(o)) {
    check(known.has(name), `${shown(name)} is not an option of gcsStore; known: ${[...known].join(", ")}`);
    const twice = o.client !== undefined && value !== undefined && ofConnections.includes(name);
    check(!twice, `${name} is given beside client, which has its own; give only one of them`);
  }
}

function checkWrites(o: CommonOptions): void {
  const { kmsKeyName, storageClass, userProject } = o;
  check(
    kmsKeyName === undefined ||
      /^projects\/[^/]+\/locations\/[^/]+\/keyRings\/[^/]+\/cryptoKeys\/[^/]+$/.test(kmsKeyName),
    `kmsKeyName is ${shown(kmsKeyName)}; give projects/P/locations/L/keyRings/R/cryptoKeys/K`,
  );
  check(
    storageClass === undefined || ["STANDARD", "NEARLINE", "COLDLINE", "ARCHIVE"].includes(storageClass),
    `storageClass is ${shown(storageClass)}; give STANDARD, NEARLINE, COLDLINE or ARCHIVE`,
  );
  check(
    userProject === undefined || (typeof userProject === "string" && /^[^\s/?#]+$/.test(userProject)),
    `userProject is ${shown(userProject)}; give the id of the project to bill`,
  );
}

/** Where the client sends to, by its own account: the option, the environment or Google. */
function endpointOf(client: Storage, o: GcsStoreOptions): string {
  const { apiEndpoint } = client;
  const name =
    o.client !== undefined
      ? "the client's apiEndpoint"
      : o.apiEndpoint !== undefined
        ? "apiEndpoint"
        : "STORAGE_EMULATOR_HOST, which stands for apiEndpoint,";
  // The value is not shown before it is known to hold no credentials.
  check(URL.canParse(apiEndpoint), `${name} must be a URL such as https://storage.googleapis.com`);
  const { protocol, username, password, search, hash } = new URL(apiEndpoint);
  check(username === "" && password === "", `${name} must not hold credentials; give them as credentials`);
  check(search === "" && hash === "", `${name} must have neither ? nor #`);
  check(protocol === "https:" || protocol === "http:", `${name} must begin with https://, not ${protocol}//`);
  check(
    protocol === "https:" || o.allowHttp === true,
    `${name} is http:, where everyone on the way can read and change everything; use https, or set allowHttp: true`,
  );
  return apiEndpoint.replace(/\/+$/, "");
}

const googles = "https://storage.googleapis.com";

function storeIdOf(o: GcsStoreOptions, endpoint: string, keyPrefix: string): string {
  if (o.storeId !== undefined) {
    check(o.storeId !== "", "storeId is empty; give a name for this bucket that stays as long as its objects");
    return o.storeId;
  }
  check(
    o.client === undefined,
    "storeId must be given with a client: a name for this bucket that stays as long as its objects",
  );
  const place = endpoint === googles ? o.bucket : `${new URL(endpoint).host}/${o.bucket}`;
  return keyPrefix === "" ? `gcs:${place}` : `gcs:${place}/${keyPrefix}`;
}

function resumableOf(o: ResumableOptions): Required<ResumableOptions> {
  const { thresholdBytes = 128 * MiB, chunkBytes = 16 * MiB } = o;
  check(
    Number.isSafeInteger(thresholdBytes) && thresholdBytes >= 0,
    `resumable.thresholdBytes is ${thresholdBytes}; give a whole number of bytes`,
  );
  check(
    Number.isSafeInteger(chunkBytes) && chunkBytes > 0 && chunkBytes % chunkUnit === 0 && chunkBytes <= 1024 * MiB,
    `resumable.chunkBytes is ${chunkBytes}; give a multiple of ${chunkUnit} (256 KiB) up to 1 GiB`,
  );
  return { thresholdBytes, chunkBytes };
}

function clientOf(o: ConnectionOptions): Storage {
  const withAuth = o.useAuthWithCustomEndpoint ?? (o.credentials !== undefined || o.keyFilename !== undefined);
  const options: StorageOptions = {
    ...(o.apiEndpoint === undefined ? {} : { apiEndpoint: o.apiEndpoint }),
    ...(o.credentials === undefined ? {} : { credentials: { ...o.credentials } }),
    ...(o.keyFilename === undefined ? {} : { keyFilename: o.keyFilename }),
    useAuthWithCustomEndpoint: withAuth,
  };
  return new Storage(options);
}
