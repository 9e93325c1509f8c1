import { types } from "node:util";
import { PackError, shown } from "./errors.js";
import { checkText } from "./field-codecs.js";
import type { FieldDeclarations, FieldValuesOf } from "./field-types.js";
import { limits } from "./limits.js";
import { compileSchema, type CaptureSchema, type CompiledSchema } from "./schema.js";
import { tensorProblem } from "./tensor-rules.js";

const greatestUInt64 = 2n ** 64n - 1n;

/** The values of a schema's fields: `FieldValues<typeof mySchema>`. */
export type FieldValues<S extends CaptureSchema> =
  S extends CaptureSchema<infer F> ? FieldValuesOf<F> : FieldValuesOf<FieldDeclarations>;

/** To whom a record belongs and in which run it was taken: 1 to 512 bytes of text each; columns of the catalog. */
export type Scope = { readonly tenant: string; readonly session: string };

/** One record. `capturedAtNs` counts from 1970 and is a UInt64. */
export interface CaptureRecord<S extends CaptureSchema = CaptureSchema> {
  readonly captureId: string;
  readonly capturedAtNs: bigint;
  readonly scope: Scope;
  readonly fields: FieldValues<S>;
  readonly payload: Uint8Array;
}

/** A record as it is handed in: the id and the time may be left to the receiver, the payload may be any view. */
export type RecordInput<S extends CaptureSchema> = {
  readonly captureId?: string | undefined;
  readonly capturedAtNs?: bigint | undefined;
  readonly scope: Scope;
  readonly fields: FieldValues<S>;
  readonly payload: ArrayBufferView;
};

/**
 * Checks a record against its schema and the limits of a pack.
 *
 * Throws RECORD_INVALID naming the field, what it takes and what was given, or RECORD_TOO_LARGE for a payload over
 * 256 MiB. Metadata over 1 MiB is found when the record is written (RECORD_TOO_LARGE); that a capture id is already in
 * a pack is found there, too.
 */
export function checkRecord(schema: CaptureSchema, record: CaptureRecord): void {
  checkCompiled(compileSchema(schema), record);
}

/** {@link checkRecord} with a schema that is ready. */
export function checkCompiled(schema: CompiledSchema, record: CaptureRecord): void {
  // The types promise more than callers without them keep.
  const { captureId, capturedAtNs, scope, fields, payload }: { [K in keyof CaptureRecord]?: unknown } = record;
  checkName("captureId", captureId);
  if (typeof capturedAtNs !== "bigint" || capturedAtNs < 0n || capturedAtNs > greatestUInt64) {
    throw invalid("capturedAtNs", `takes a bigint from 0 to ${greatestUInt64.toString()}; got ${shown(capturedAtNs)}`);
  }
  const { tenant, session } = (scope ?? {}) as { [K in keyof Scope]?: unknown };
  checkName("scope.tenant", tenant);
  checkName("scope.session", session);
  if (!types.isUint8Array(payload)) throw invalid("payload", `takes a Uint8Array; got ${shown(payload)}`);
  checkFields(schema, fields, payload.byteLength);
  if (payload.byteLength > limits.payloadBytes) {
    throw new PackError(
      "RECORD_TOO_LARGE",
      `the payload has ${payload.byteLength} bytes and may have ${limits.payloadBytes}: split it over several records`,
      { field: "payload" },
    );
  }
}

/** Checks the fields alone, as an index gives them. Throws RECORD_INVALID. */
export function checkFields(schema: CompiledSchema, fields: unknown, payloadBytes: number): void {
  if (typeof fields !== "object" || fields === null || Array.isArray(fields)) {
    throw invalid("fields", `takes an object of the schema's fields; got ${shown(fields)}`);
  }
  const values = fields as Readonly<Record<string, unknown>>;
  for (const { name, type, codec } of schema.fields) {
    const value = Object.hasOwn(values, name) ? values[name] : undefined;
    const problem = value === undefined && !codec.nullable ? "is missing" : codec.check(value);
    if (problem !== null) throw invalid(name, `of type ${type} ${problem}`);
  }
  for (const name of Object.keys(values)) {
    if (!Object.hasOwn(schema.schema.fields, name) && values[name] !== undefined) {
      throw invalid(
        name,
        `is not in schema ${schema.schema.name} version ${schema.schema.version}: add it there, or leave it out`,
      );
    }
  }
  if (schema.schema.rules === "tensor") {
    const found = tensorProblem(values, payloadBytes);
    if (found !== null) throw invalid(found.field, found.problem);
  }
}

/** Checks a capture id, tenant or session. Throws RECORD_INVALID. */
export function checkName(field: string, value: unknown): void {
  const problem = checkText(value);
  if (problem !== null) throw invalid(field, problem);
  const { length } = value as string;
  if (length > 0 && length * 3 <= limits.nameBytes) return;
  const bytes = Buffer.byteLength(value as string);
  if (bytes < 1 || bytes > limits.nameBytes) {
    throw invalid(field, `takes 1 to ${limits.nameBytes} bytes of text; got ${bytes} bytes`);
  }
}

function invalid(field: string, problem: string): PackError {
  return new PackError("RECORD_INVALID", `${field} ${problem}`, { field });
}
