import { EventEmitter } from "node:events";
import type { Readable } from "node:stream";
import type { ExchangeRules } from "./exchange.js";
import { boundFileClass } from "./file.js";
import { Origin } from "./guard.js";
import { asOneCall } from "./operation.js";
import type { StorageClass } from "./vendor.js";

interface VendorBucket extends EventEmitter {
  readonly storage: object;
  file(name: string, options?: object): object;
  notification(id: string): object;
  getFilesStream(query?: object): Readable;
}

export type BucketConstructor = new (storage: object, name: string, options?: object) => VendorBucket;

/** What each bound Storage was bound with. */
export const rulesOf = new WeakMap<object, ExchangeRules>();

const classes = new WeakMap<StorageClass, BucketConstructor>();

/** Neither calls nor parts of one by themselves: streams and uploads see to it themselves, and the rest only makes objects. */
const notCalls = new Set([
  "constructor",
  "bucket",
  "channel",
  "createReadStream",
  "createWriteStream",
  "file",
  "getBucketsStream",
  "getFilesStream",
  "getHmacKeysStream",
  "getRequestInterceptors",
  "hmacKey",
  "makeAuthenticatedRequest",
  "notification",
  "request_",
  "requestStream",
  "startResumableUpload_",
  "startSimpleUpload_",
]);

/** A Bucket whose files are bound, and whose methods are calls. One class for all bound Storages of one vendor class. */
export function boundBucketClass(vendor: StorageClass, storage: object): BucketConstructor {
  const known = classes.get(vendor);
  if (known) return known;
  const knownRules = (of: object): ExchangeRules => {
    const rules = rulesOf.get(of);
    if (!rules) throw new Error("unreachable: a bound object has a bound Storage");
    return rules;
  };
  const BoundFile = boundFileClass(vendor, knownRules);
  const Base = vendor.Bucket as unknown as BucketConstructor;
  // Named as the vendor's, as the File.
  const BoundBucket = class Bucket extends Base {
    constructor(of: object, name: string, options?: object) {
      super(of, name, options);
      this.getFilesStream = pagesStream(this, "getFiles_", "getFilesStream", {
        getFilesStream: Reflect.get(this, "getFilesStream") as unknown,
      });
    }
    override file(name: string, options?: object): object {
      // The vendor's own refuses an empty name.
      return name ? new BoundFile(this, name, options) : super.file(name, options);
    }
    override notification(id: string): object {
      return withCalls(super.notification(id));
    }
  };
  const sample = new Base(storage, "sample");
  makeCalls(BoundBucket.prototype, sample);
  makeCalls(BoundFile.prototype as object, sample.file("sample"));
  classes.set(vendor, BoundBucket);
  return BoundBucket;
}

type Method = (this: unknown, ...args: unknown[]) => unknown;

/**
 * Makes each method that `sample` has one call (see {@link asOneCall}). The vendor takes methods away from an instance
 * that its kind does not have, so an instance is asked, not the class.
 */
function makeCalls(target: object, sample: object): void {
  for (const name of methodNames(target)) {
    const method: unknown = Reflect.get(target, name);
    if (notCalls.has(name) || typeof Reflect.get(sample, name) !== "function" || typeof method !== "function") continue;
    const value = function (this: unknown, ...args: unknown[]): unknown {
      return asOneCall(method as Method, this, args);
    };
    Object.defineProperty(target, name, { value, writable: true, configurable: true });
  }
}

/** As makeCalls, on one object of a kind that is rare. */
export function withCalls<T extends object>(object: T): T {
  makeCalls(object, object);
  return object;
}

function methodNames(target: object): Set<string> {
  const names = new Set<string>();
  for (let at: unknown = target; at && at !== EventEmitter.prototype && at !== Object.prototype;) {
    for (const [name, own] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (typeof own.value === "function") names.add(name);
    }
    at = Object.getPrototypeOf(at);
  }
  return names;
}

/** A stream of listed objects whose pages are asked for from where the stream was made. */
export function pagesStream(of: object, pageMethod: string, streamMethod: string, vendors: object) {
  const make = Reflect.get(vendors, streamMethod) as Method;
  return (query?: object): Readable => {
    const origin = new Origin();
    const page = Reflect.get(of, pageMethod) as Method;
    const own = Object.create(of, {
      [pageMethod]: { value: (...args: unknown[]) => origin.run(() => Reflect.apply(page, of, args)) },
    }) as object;
    const stream = Reflect.apply(make, own, query === undefined ? [] : [query]) as Readable;
    origin.guard(stream);
    return stream;
  };
}
