import type { Case } from "../types.js";
import { capabilityCases } from "./capabilities.js";
import { conditionCases } from "./conditions.js";
import { faultListCases } from "./fault-list.js";
import { faultConditionCases } from "./fault-put-conditions.js";
import { lostPutCases } from "./fault-put-lost.js";
import { refusedPutCases } from "./fault-put-refused.js";
import { faultReadCases } from "./fault-read.js";
import { helperCases } from "./helpers.js";
import { besideKeys } from "./keys-beside.js";
import { refusedKeys } from "./keys-refused.js";
import { oddKeys } from "./keys.js";
import { listMovingCases } from "./list-moving.js";
import { listPageCases } from "./list-page.js";
import { listCases } from "./list.js";
import { putBodyCases } from "./put-body.js";
import { putBytesCases } from "./put-bytes.js";
import { putMetadataCases } from "./put-metadata.js";
import { readRangeCases } from "./read-range.js";
import { readCases } from "./read.js";
import { replaceConditionCases } from "./replace-condition.js";
import { replaceCases } from "./replace.js";
import { signalCases } from "./signals.js";

/** All cases, by what they are about. */
export const caseGroups: Readonly<Record<string, readonly Case[]>> = {
  "bytes of a put": [...putBytesCases, ...putBodyCases],
  "overwrites and deletes": replaceCases,
  "metadata of a put": putMetadataCases,
  conditions: [...conditionCases, ...replaceConditionCases],
  capabilities: capabilityCases,
  reading: readCases,
  ranges: readRangeCases,
  listing: [...listCases, ...listPageCases],
  "listing of what moves": listMovingCases,
  keys: [...oddKeys, ...besideKeys, ...refusedKeys],
  signals: signalCases,
  helpers: helperCases,
  "puts under faults": [...lostPutCases, ...refusedPutCases, ...faultConditionCases],
  "reads and deletes under faults": faultReadCases,
  "listings under faults": faultListCases,
};
