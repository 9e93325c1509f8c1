export { LeaseRows, type LeaseRow } from "./lease-rows.js";
export {
  SimulatedLeaseTable,
  type LeaseOperation,
  type OperationPlan,
  type OperationRecord,
  type SimulatedLeaseTableOptions,
} from "./simulated-lease-table.js";
