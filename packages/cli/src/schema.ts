import { defineCaptureSchema, type CaptureSchema, tensor } from "@holdfast/pack-format";
import { parseJson, readTextFile } from "./config.js";
import { CliError } from "./errors.js";

type Declaration = Parameters<typeof defineCaptureSchema>[0];

function isDeclaration(value: unknown): value is Declaration {
  if (typeof value !== "object" || value === null) return false;
  const { name, version, fields, orderBy } = value as Record<string, unknown>;
  return (
    typeof name === "string" &&
    typeof version === "number" &&
    typeof fields === "object" &&
    fields !== null &&
    Array.isArray(orderBy)
  );
}

/**
 * The capture schema that `--schema` names: `tensor`, or a JSON file holding what `defineCaptureSchema` takes.
 * @throws CliError `USAGE_INVALID`, `FILE_UNREADABLE`, `CONFIG_INVALID`; PackError `SCHEMA_INVALID`.
 */
export async function loadSchema(schema: string): Promise<CaptureSchema> {
  if (schema === tensor.name) return tensor;
  if (!schema.endsWith(".json")) {
    throw new CliError(
      "USAGE_INVALID",
      `--schema ${schema}: say tensor, or a JSON file with name, version, fields and orderBy`,
    );
  }
  const declaration = parseJson(await readTextFile(schema), schema);
  if (!isDeclaration(declaration)) {
    throw new CliError("CONFIG_INVALID", `${schema}: a schema has name, version, fields and orderBy`);
  }
  return defineCaptureSchema(declaration);
}
