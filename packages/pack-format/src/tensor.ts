import { defineCaptureSchema } from "./schema.js";
import { tensorFields } from "./tensor-rules.js";

/**
 * A ready-made schema for tensors taken from a running model. Beside the types of its 17 fields these rules hold, and
 * a record that breaks one is RECORD_INVALID:
 *
 * - every text has 1 to 512 bytes; `adapter_revision` may be null;
 * - `layer_number` is -1 (no layer) or more; `token_end` is not below `token_start`;
 * - `dtype` is one of bool, uint8, int8, int16, float16, bfloat16, int32, float32, int64, float64;
 * - `shape` has at most 32 dimensions of at most 2^31-1, and their product (1 when there is none) times the item size
 *   of `dtype` is the length of the payload.
 *
 * For a catalog of another name: `defineCaptureSchema({ ...tensor, name: "my_tensors" })`.
 */
export const tensor = defineCaptureSchema({
  name: "tensor",
  version: 1,
  fields: tensorFields,
  orderBy: ["experiment_id", "run_id", "model_id", "layer_number", "step_number"],
  rules: "tensor",
});
