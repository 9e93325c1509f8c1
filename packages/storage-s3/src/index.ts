export {
  abortIncompleteUploads,
  type AbortIncompleteUploadsOptions,
  type IncompleteUploads,
} from "./incomplete-uploads.js";
export { s3Store } from "./s3-store.js";
export type { ChecksumMode, ClientOptions, ConnectionOptions, MultipartOptions, S3StoreOptions } from "./options.js";
