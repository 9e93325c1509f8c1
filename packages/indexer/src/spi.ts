// For authors of object stores: what an ObjectStore is, without a second package to install.
export {
  checkKey,
  checkMetadata,
  compareKeys,
  getExactly,
  memoryStore,
  ObjectStoreError,
  putVerified,
  resolveRange,
  writeIdKey,
} from "@holdfast/object-store";
export type {
  Body,
  ByteRange,
  Call,
  Capabilities,
  ObjectInfo,
  ObjectStore,
  PutOptions,
  PutResult,
} from "@holdfast/object-store";
