export { conformanceCases, objectStoreConformance, runConformanceCase } from "./suite.js";
export type { CaseInfo, ConformanceOptions } from "./suite.js";
export { lyingStores, type Liar } from "./liars.js";
export type { Fault, FaultInjector, FaultKind, Injected, Operation } from "./faults.js";
export type { CaseId, Place, Runner } from "./types.js";
