import type { EventEmitter } from "node:events";
import type { Readable, Writable } from "node:stream";
import { ConfigError } from "../errors.js";
import { perform, type ExchangeRules } from "./exchange.js";
import { Origin } from "./guard.js";
import { currentOperation } from "./operation.js";
import { ResumableUpload, type Session } from "./upload.js";
import { traits, type Done, type RequestOptions, type StorageClass, type Traits } from "./vendor.js";

/** The parts of the vendor's File that the bound one stands on; alike in 7 and 8. */
export interface VendorFile extends EventEmitter {
  readonly name: string;
  metadata: unknown;
  readonly bucket: { readonly name: string };
  readonly storage: { readonly apiEndpoint: string };
  readonly generation?: number;
  readonly kmsKeyName?: string;
  readonly userProject?: string;
  readonly instancePreconditionOpts?: Record<string, unknown>;
  request(options: RequestOptions, done: Done): void;
  requestStream(options: RequestOptions): Readable;
  createReadStream(options?: object): Readable;
  createWriteStream(options?: UploadFileOptions): Writable;
  isPublic(done?: Done): unknown;
  startSimpleUpload_(into: UploadTarget, options?: UploadFileOptions): void;
  startResumableUpload_(into: UploadTarget, options?: UploadFileOptions): void;
}

/** The vendor's duplexify stream: what is written to it goes into the stream that is set. */
export interface UploadTarget extends EventEmitter {
  setWritable(stream: Writable): void;
  destroy(error?: Error): void;
}

/** What the vendor takes for an upload. */
export interface UploadFileOptions {
  readonly chunkSize?: number;
  readonly isPartialUpload?: boolean;
  readonly metadata?: Record<string, unknown>;
  readonly offset?: number;
  readonly origin?: string;
  readonly preconditionOpts?: Record<string, unknown>;
  readonly predefinedAcl?: string;
  readonly private?: boolean;
  readonly public?: boolean;
  readonly uri?: string;
  readonly userProject?: string;
}

type FileConstructor = new (bucket: object, name: string, options?: object) => VendorFile;

/** The least that Google advises, and a multiple of the 256 KiB that chunks have to be. */
const defaultChunkBytes = 8 * 1024 * 1024;

/** Uploads that are to begin, by the options that the vendor passes along -> where they were made. */
const origins = new WeakMap<object, Origin>();

/**
 * A File whose streams and uploads are bound. Its other requests are, because they all go through its Storage.
 * `rulesOf`: what its Storage was bound with.
 */
export function boundFileClass(vendor: StorageClass, rulesOf: (storage: object) => ExchangeRules): FileConstructor {
  const Base = vendor.File as unknown as FileConstructor;
  // Named as the vendor's: the name is seen, and code asks for it.
  const File = class extends Base {
    override createReadStream(options?: object): Readable {
      const origin = new Origin();
      let request: Readable | null = null;
      const requestStream = (o: RequestOptions): Readable =>
        (request = origin.run(() => super.requestStream.call(this, o)));
      const own = Object.create(this, { requestStream: { value: requestStream } }) as this;
      const stream = super.createReadStream.call(own, options);
      stream.once("close", () => request?.destroy());
      origin.guard(stream);
      return stream;
    }

    override createWriteStream(options: UploadFileOptions = {}): Writable {
      refuseContinued(options);
      checkChunkSize(options.chunkSize);
      const origin = new Origin();
      // A copy: the vendor writes into it, and it stands for this one upload.
      const own = { ...options, metadata: { ...options.metadata } };
      origins.set(own, origin);
      const stream = super.createWriteStream(own);
      origin.guard(stream);
      return stream;
    }

    override startSimpleUpload_(into: UploadTarget, options: UploadFileOptions = {}): void {
      originOf(options).run(() => super.startSimpleUpload_(into, options));
    }

    override startResumableUpload_(into: UploadTarget, options: UploadFileOptions = {}): void {
      const session = sessionOf(this, into, originOf(options), options);
      const o = { chunkBytes: options.chunkSize || defaultChunkBytes, maxStuck: rulesOf(this.storage).maxAttempts };
      const upload = new ResumableUpload(session, o);
      upload.on("uri", (uri) => into.emit("uri", uri));
      upload.on("progress", (progress) => into.emit("progress", progress));
      upload.on("metadata", (metadata) => {
        this.metadata = metadata;
        into.emit("metadata", metadata);
      });
      upload.on("finish", () => into.emit("complete"));
      into.setWritable(upload);
    }

    /** The vendor sends this one request past its Storage. */
    override isPublic(done?: Done): Promise<[unknown]> | undefined {
      const uri = `${this.storage.apiEndpoint}/${this.bucket.name}/${encodeURIComponent(this.name)}`;
      const options: RequestOptions = { uri, [traits]: { anonymous: true } };
      const vendors = (): Promise<unknown> =>
        new Promise((resolve, reject) => {
          super.isPublic((error, is) => {
            if (error) reject(asError(error));
            else resolve(is);
          });
        });
      const asked = perform(rulesOf(this.storage), options, null, currentOperation(), vendors);
      if (!done) return asked.then((is) => [is]);
      asked.then((is) => done(null, is), done);
      return undefined;
    }

    /** Only starts the session: what is then sent to its address is not bound. */
    createResumableUpload(optionsOrDone?: UploadFileOptions | Done, done?: Done): Promise<[string]> | undefined {
      const options = typeof optionsOrDone === "object" ? optionsOrDone : {};
      const callback = typeof optionsOrDone === "function" ? optionsOrDone : done;
      const started = startSession(this, options, undefined);
      if (!callback) return started.then((uri) => [uri]);
      started.then((uri) => callback(null, uri), callback);
      return undefined;
    }
  };
  return File;
}

const originOf = (options: object): Origin => origins.get(options) ?? new Origin();

function refuseContinued(options: UploadFileOptions): void {
  for (const name of ["uri", "offset", "isPartialUpload"] as const) {
    if (options[name] === undefined || options[name] === false || options[name] === 0) continue;
    throw new ConfigError(
      `createWriteStream({ ${name} }) continues an upload, which a bound File does not; ` +
        `upload from the beginning, or use a Storage that is not bound`,
    );
  }
}

/** 0 means no choice, as to the vendor. */
function checkChunkSize(chunkSize: number | undefined): void {
  if (!chunkSize || (Number.isInteger(chunkSize) && chunkSize > 0)) return;
  throw new ConfigError(`chunkSize is ${chunkSize}; give a multiple of 262144 bytes`);
}

function sessionOf(file: VendorFile, into: UploadTarget, origin: Origin, options: UploadFileOptions): Session {
  const controller = new AbortController();
  const { signal } = controller;
  return {
    start: () => origin.run(() => startSession(file, options, signal)),
    put: async (uri, body, contentRange) => {
      const headers = { "Content-Range": contentRange };
      const own: Traits = { wantsMore: true, signal };
      const { answer, body: metadata } = await origin.run(() =>
        ask(file, { method: "PUT", uri, headers, body, [traits]: own }),
      );
      into.emit("response", answer);
      return { status: answer.statusCode ?? 0, range: answer.headers?.["range"], metadata };
    },
    abort: () => controller.abort(),
  };
}

/** Begins an upload session, which by itself changes nothing: repeated like a read, and no effect of the call. */
async function startSession(file: VendorFile, o: UploadFileOptions, signal?: AbortSignal): Promise<string> {
  const { contentLength, contentType, ...metadata } = o.metadata ?? {};
  const acl = o.public ? "publicRead" : o.private ? "private" : o.predefinedAcl;
  const { generation, kmsKeyName } = file;
  const userProject = o.userProject ?? file.userProject;
  const { answer } = await ask(file, {
    method: "POST",
    uri: `${file.storage.apiEndpoint}/upload/storage/v1/b/${file.bucket.name}/o`,
    qs: {
      name: file.name,
      uploadType: "resumable",
      ...(generation !== undefined && { ifGenerationMatch: generation }),
      ...(kmsKeyName !== undefined && { kmsKeyName }),
      ...(acl !== undefined && { predefinedAcl: acl }),
      ...(userProject !== undefined && { userProject }),
      ...(o.preconditionOpts ?? file.instancePreconditionOpts),
    },
    headers: {
      ...((typeof contentLength === "number" || typeof contentLength === "string") && {
        "X-Upload-Content-Length": String(contentLength),
      }),
      ...(typeof contentType === "string" && { "X-Upload-Content-Type": contentType }),
      ...(o.origin !== undefined && { Origin: o.origin }),
    },
    json: metadata,
    [traits]: { effectless: true, ...(signal && { signal }) },
  });
  const address = answer.headers?.["location"];
  if (address === undefined) throw new Error("the server began an upload session and gave it no address");
  return address;
}

interface Asked {
  readonly answer: { readonly statusCode?: number; readonly headers?: Readonly<Record<string, string | undefined>> };
  readonly body: unknown;
}

const ask = (file: VendorFile, options: RequestOptions): Promise<Asked> =>
  new Promise((resolve, reject) => {
    file.request(options, (error, body, answer) => {
      if (error) reject(asError(error));
      else resolve({ body, answer: answer ?? {} });
    });
  });

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)));
