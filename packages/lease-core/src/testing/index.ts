export {
  SimulatedLeaseTable,
  type LeaseOperation,
  type LeaseRow,
  type OperationPlan,
  type OperationRecord,
  type SimulatedLeaseTableOptions,
} from "./simulated-lease-table.js";
