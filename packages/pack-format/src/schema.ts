import { createHash } from "node:crypto";
import { PackError, shown } from "./errors.js";
import { allowedTypes, canOrder, codecOf, type FieldCodec } from "./field-codecs.js";
import type { FieldDeclarations, FieldType } from "./field-types.js";
import { limits } from "./limits.js";
import { tensorFields, type RuleSet } from "./tensor-rules.js";

/**
 * What the records of one catalog look like: plain data, safe to write as JSON. `name` is also the table prefix, the
 * lease name and the key prefix of its catalog; `version` grows when fields are added; `orderBy` names the fields by
 * which the catalog sorts. `rules` names a set of checks beyond the types that this package knows.
 */
export interface CaptureSchema<F extends FieldDeclarations = FieldDeclarations> {
  readonly name: string;
  readonly version: number;
  readonly fields: F;
  readonly orderBy: readonly string[];
  readonly rules?: RuleSet;
}

/** Names that no field may have: columns of the catalog and members of a found record. */
export const systemColumns: readonly string[] = Object.freeze([
  "capture_id",
  "captured_at_ns",
  "tenant",
  "session",
  "pack_id",
  "store_id",
  "object_key",
  "object_bytes",
  "pack_sha256",
  "block_offset",
  "block_bytes",
  "codec",
  "payload_offset",
  "payload_bytes",
  "payload_crc32",
  "index_version",
  "captureId",
  "capturedAtNs",
  "scope",
  "payload",
]);

const schemaName = /^[a-z][a-z0-9_]{0,47}$/;
const fieldName = /^[A-Za-z][A-Za-z0-9_]{0,63}$/;

/** One field, ready for checking, writing and reading. */
export interface CompiledField {
  readonly name: string;
  readonly type: FieldType;
  readonly codec: FieldCodec;
}

/** A checked schema with what follows from it. */
export interface CompiledSchema {
  readonly schema: CaptureSchema;
  readonly fields: readonly CompiledField[];
  /** The declaration as packs carry it. */
  readonly bytes: Buffer;
  /** The first six bytes of the SHA-256 of `bytes`, in hex. */
  readonly id: string;
}

const compiled = new WeakMap<object, CompiledSchema>();

/**
 * Declares a capture schema and checks it. The field types are inferred from the declaration (`UInt64` gives `bigint`,
 * `Nullable(T)` gives `T | null`). The result is frozen.
 *
 * Throws SCHEMA_INVALID: a name that is not lower-case letters, digits and `_` (1 to 48, a letter first); a version
 * that is not a whole number from 1 to 2^31-1; a field name that is reserved, begins with `hf_` or is not an
 * identifier of at most 64 characters; an unknown field type; an `orderBy` that names something else than a plain,
 * never-null field.
 */
export function defineCaptureSchema<const F extends FieldDeclarations>(declaration: {
  readonly name: string;
  readonly version: number;
  readonly fields: F;
  readonly orderBy: readonly (keyof F & string)[];
  readonly rules?: RuleSet;
}): CaptureSchema<F> {
  return compile(declaration).schema as CaptureSchema<F>;
}

/**
 * Twelve hex digits that stand for a declaration: equal for equal declarations (field order included), different for
 * different ones but for a chance of 2^-48. It is in the header of each pack. Throws SCHEMA_INVALID.
 */
export function schemaIdOf(schema: CaptureSchema): string {
  return compileSchema(schema).id;
}

/** The checked form of a schema: remembered for each schema object. Throws SCHEMA_INVALID. */
export function compileSchema(schema: CaptureSchema): CompiledSchema {
  return compiled.get(schema) ?? compile(schema);
}

/** Reads the declaration that a pack carries. Throws SCHEMA_INVALID when it is not one, to the byte. */
export function schemaFromBytes(bytes: Uint8Array): CompiledSchema {
  if (bytes.byteLength > limits.schemaBytes) throw invalid(`the declaration takes ${bytes.byteLength} bytes`);
  let declaration: unknown;
  try {
    declaration = JSON.parse(Buffer.from(bytes).toString("utf8"));
  } catch (cause) {
    throw new PackError("SCHEMA_INVALID", "the schema in the pack is not JSON", { cause });
  }
  const result = compile(declaration);
  if (Buffer.compare(result.bytes, bytes) !== 0) {
    throw invalid("the declaration in the pack has members or a form that this version does not write");
  }
  return result;
}

function invalid(what: string, field?: string): PackError {
  return new PackError("SCHEMA_INVALID", what, field === undefined ? {} : { field });
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function compile(declaration: unknown): CompiledSchema {
  if (!isObject(declaration)) throw invalid(`a schema is an object; got ${shown(declaration)}`);
  const { name, version } = declaration;
  if (typeof name !== "string" || !schemaName.test(name)) {
    throw invalid(`a schema name is 1 to 48 of a-z, 0-9 and _, a letter first; got ${shown(name)}`);
  }
  if (typeof version !== "number" || !Number.isInteger(version) || version < 1 || version > 0x7fff_ffff) {
    throw invalid(`version of schema ${name} is a whole number from 1 to 2147483647; got ${shown(version)}`);
  }
  const fields = compileFields(name, declaration["fields"]);
  const orderBy = checkOrder(name, fields, declaration["orderBy"]);
  const rules = checkRules(name, fields, declaration["rules"]);
  const schema: CaptureSchema = Object.freeze({
    name,
    version,
    fields: Object.freeze(Object.fromEntries(fields.map((field) => [field.name, field.type]))),
    orderBy: Object.freeze(orderBy),
    ...(rules === undefined ? {} : { rules }),
  });
  const bytes = Buffer.from(JSON.stringify(schema), "utf8");
  if (bytes.length > limits.schemaBytes) throw invalid(`the declaration of ${name} takes ${bytes.length} bytes`);
  const id = createHash("sha256").update(bytes).digest("hex").slice(0, 12);
  const result = { schema, fields, bytes, id };
  compiled.set(schema, result);
  // A schema of another copy of this package is frozen as well: it cannot change, so it need not be checked each time.
  if ([declaration, declaration["fields"], declaration["orderBy"]].every(Object.isFrozen))
    compiled.set(declaration, result);
  return result;
}

function compileFields(schema: string, declared: unknown): CompiledField[] {
  if (!isObject(declared)) throw invalid(`fields of schema ${schema} is an object of name: type`);
  const entries = Object.entries(declared);
  if (entries.length > limits.fields) {
    throw invalid(`schema ${schema} has ${entries.length} fields and may have ${limits.fields}`);
  }
  return entries.map(([name, type]) => {
    if (!fieldName.test(name)) {
      throw invalid(`a field name is 1 to 64 letters, digits and _, a letter first; got ${shown(name)}`, name);
    }
    if (systemColumns.includes(name) || name.startsWith("hf_")) {
      throw invalid(`field name ${name} is reserved (${systemColumns.join(", ")} and hf_...): choose another`, name);
    }
    const codec = typeof type === "string" ? codecOf(type) : undefined;
    if (codec === undefined) {
      throw invalid(`field ${name} has the unknown type ${shown(type)}; allowed are ${allowedTypes}`, name);
    }
    return { name, type: type as FieldType, codec };
  });
}

function checkOrder(schema: string, fields: readonly CompiledField[], orderBy: unknown): string[] {
  if (!Array.isArray(orderBy)) throw invalid(`orderBy of schema ${schema} is an array of field names`);
  const seen: string[] = [];
  for (const name of orderBy as unknown[]) {
    const field = fields.find((each) => each.name === name);
    if (field === undefined) throw invalid(`orderBy of schema ${schema} names ${shown(name)}, which is not a field`);
    if (!canOrder(field.type)) {
      throw invalid(`orderBy names ${field.name} of type ${field.type}; it takes plain, never-null fields`, field.name);
    }
    if (seen.includes(field.name)) throw invalid(`orderBy names ${field.name} twice`, field.name);
    seen.push(field.name);
  }
  return seen;
}

function checkRules(schema: string, fields: readonly CompiledField[], rules: unknown): RuleSet | undefined {
  if (rules === undefined) return undefined;
  if (rules !== "tensor") throw invalid(`rules of schema ${schema} is "tensor" or left out; got ${shown(rules)}`);
  for (const [name, type] of Object.entries(tensorFields)) {
    const field = fields.find((each) => each.name === name);
    if (field?.type !== type) {
      throw invalid(`rules "tensor" need the field ${name} of type ${type}; got ${field?.type ?? "none"}`, name);
    }
  }
  return rules;
}
