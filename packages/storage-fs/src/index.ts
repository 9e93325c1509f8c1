export { fsStore, type FsStoreOptions } from "./fs-store.js";
