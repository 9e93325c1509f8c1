import type { Case } from "../types.js";
import { capabilityCases } from "./capabilities.js";
import { conditionCases } from "./conditions.js";
import { faultListCases } from "./fault-list.js";
import { faultPutCases } from "./fault-put.js";
import { faultReadCases } from "./fault-read.js";
import { helperCases } from "./helpers.js";
import { keyCases } from "./keys.js";
import { listCases } from "./list.js";
import { putBytesCases } from "./put-bytes.js";
import { putMetadataCases } from "./put-metadata.js";
import { readCases } from "./read.js";
import { signalCases } from "./signals.js";

/** All cases, by what they are about. */
export const caseGroups: Readonly<Record<string, readonly Case[]>> = {
  "bytes of a put": putBytesCases,
  "metadata of a put": putMetadataCases,
  conditions: conditionCases,
  capabilities: capabilityCases,
  reading: readCases,
  listing: listCases,
  keys: keyCases,
  signals: signalCases,
  helpers: helperCases,
  "puts under faults": faultPutCases,
  "reads and deletes under faults": faultReadCases,
  "listings under faults": faultListCases,
};
