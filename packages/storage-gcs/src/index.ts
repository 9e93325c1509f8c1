export { gcsStore } from "./gcs-store.js";
export type { ClientOptions, ConnectionOptions, GcsStoreOptions, ResumableOptions } from "./options.js";
