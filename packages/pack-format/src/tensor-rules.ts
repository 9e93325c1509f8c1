import { shown } from "./errors.js";

/** Names of the sets of checks beyond the field types. */
export type RuleSet = "tensor";

/** The fields that the tensor rules are about. */
export const tensorFields = {
  experiment_id: "String",
  run_id: "String",
  request_id: "String",
  sequence_id: "String",
  model_id: "LowCardinality(String)",
  model_revision: "LowCardinality(String)",
  adapter_revision: "LowCardinality(Nullable(String))",
  capture_policy_version: "LowCardinality(String)",
  hook_name: "LowCardinality(String)",
  layer_number: "Int32",
  producer_rank: "UInt32",
  step_number: "UInt64",
  token_start: "UInt64",
  token_end: "UInt64",
  batch_position: "UInt32",
  dtype: "LowCardinality(String)",
  shape: "Array(UInt32)",
} as const;

const itemBytes: ReadonlyMap<unknown, number> = new Map([
  ["bool", 1],
  ["uint8", 1],
  ["int8", 1],
  ["int16", 2],
  ["float16", 2],
  ["bfloat16", 2],
  ["int32", 4],
  ["float32", 4],
  ["int64", 8],
  ["float64", 8],
]);

const texts = Object.entries(tensorFields)
  .filter(([name, type]) => type.includes("String") && name !== "dtype")
  .map(([name]) => name);
const largestDimension = 2 ** 31 - 1;
const largestRank = 32;
const largestText = 512;

/**
 * The rules of a tensor record whose field types are already right. Answers the field and what is wrong with it, or
 * null.
 */
export function tensorProblem(
  fields: Readonly<Record<string, unknown>>,
  payloadBytes: number,
): { field: string; problem: string } | null {
  for (const field of texts) {
    const value = fields[field];
    if (typeof value !== "string") continue;
    // A UTF-16 unit takes at most three bytes, so most texts need no counting.
    if (value.length > 0 && value.length * 3 <= largestText) continue;
    const bytes = Buffer.byteLength(value);
    if (bytes < 1 || bytes > largestText) {
      return { field, problem: `takes 1 to ${largestText} bytes of text; got ${bytes} bytes` };
    }
  }
  const layer = fields["layer_number"] as number;
  if (layer < -1) return { field: "layer_number", problem: `takes -1 (no layer) or more; got ${layer}` };
  const [start, end] = [fields["token_start"] as bigint, fields["token_end"] as bigint];
  if (end < start) {
    return { field: "token_end", problem: `is not below token_start ${start.toString()}; got ${end.toString()}` };
  }
  return shapeProblem(fields["dtype"], fields["shape"] as readonly number[], payloadBytes);
}

function shapeProblem(dtype: unknown, shape: readonly number[], payloadBytes: number) {
  const bytes = itemBytes.get(dtype);
  if (bytes === undefined) {
    return { field: "dtype", problem: `is one of ${[...itemBytes.keys()].join(", ")}; got ${shown(dtype)}` };
  }
  if (shape.length > largestRank) {
    return { field: "shape", problem: `takes at most ${largestRank} dimensions; got ${shape.length}` };
  }
  const tooLarge = shape.find((dimension) => dimension > largestDimension);
  if (tooLarge !== undefined) {
    return { field: "shape", problem: `takes dimensions up to ${largestDimension}; got ${tooLarge}` };
  }
  // In bigint: the product of 32 dimensions can be far beyond what a number holds exactly.
  const expected = shape.reduce((product, dimension) => product * BigInt(dimension), BigInt(bytes));
  if (expected === BigInt(payloadBytes)) return null;
  const shapeText = `[${shape.join(", ")}]`;
  return {
    field: "shape",
    problem: `${shapeText} of ${String(dtype)} needs a payload of ${expected.toString()} bytes; given ${payloadBytes} bytes`,
  };
}
