// For authors of object stores: what an ObjectStore is, without a second package to install.
export {
  checkKey,
  checkMetadata,
  checkPut,
  compareKeys,
  ContractBrokenError,
  getExactly,
  listPages,
  memoryStore,
  ObjectStoreError,
  probe,
  putVerified,
  resolveRange,
  resolveUnknownPut,
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
