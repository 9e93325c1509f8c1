export {
  claimSettings,
  ClickHouseLeaseTable,
  decidingReadSettings,
  defaultLeaseTable,
  quorumSettings,
  type ClickHouseLeaseTableOptions,
} from "./clickhouse-lease-table.js";
export { leaseConfig, leaseDefaults, type LeaseConfig, type LeaseOptions, type Topology } from "./config.js";
export { LeaseCoordinator, type ClaimResult, type HeldLease, type LeaseCoordinatorOptions } from "./coordinator.js";
export { LeaseError, type LeaseErrorCode, type LeaseErrorDetails, type LossReason } from "./errors.js";
export { acquireLease, createLeaseKeeper } from "./create-keeper.js";
export { LeaseKeeper } from "./keeper.js";
export { type Held, type LeaseKeeperOptions, type LeaseStatus } from "./keeper-options.js";
export { type LeaseChange } from "./keeper-core.js";
export { type LeaseLoss } from "./keeper-state.js";
export { type ClaimRow, type Fence, type Head, type HeadLease, type LeaseTable } from "./lease-table.js";
export { type LeaseSql } from "./sql.js";
export { type Random } from "./prng.js";
export { SchemaLease, type SchemaLeaseOptions, type SchemaLeaseStatus } from "./schema-lease.js";
export {
  readSchemaLease,
  type ReadSchemaLeaseOptions,
  type SchemaLeaseClaim,
  type SchemaLeaseReport,
} from "./schema-lease-report.js";
export { type Stretch } from "./stretch.js";
