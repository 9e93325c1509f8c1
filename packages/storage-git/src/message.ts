import { checkMetadata, ObjectStoreError } from "@holdfast/object-store";

/** What a commit says about one object that it wrote: kept in a trailer of its message, so that the tree holds nothing but the objects. */
export type Kept = { readonly metadata: Readonly<Record<string, string>>; readonly contentType?: string };
/** As {@link Kept}, with the key. */
export type KeptObject = Kept & { readonly key: string };

/** The trailer that names an object which the commit wrote, as JSON. A put of the same bytes changes no file, and is seen by this alone. */
export const objectTrailer = "Holdfast-Object";
/** The trailer that makes each commit another one: two writers that write the same in the same second must not make one commit. */
const writeTrailer = "Holdfast-Write";

/** Refuses what is not one line of text with `CONFIG_INVALID`; `what` names the argument. */
export function checkSubject(subject: unknown, what: string): asserts subject is string {
  const good =
    typeof subject === "string" && subject.trim() !== "" && !/\p{Cc}/u.test(subject) && subject.length <= 1_000;
  if (good) return;
  throw new ObjectStoreError(
    "CONFIG_INVALID",
    `${what} is ${JSON.stringify(subject)}; give one line of at most 1,000 characters`,
  );
}

/** The text of a commit: its subject, one line for each change, then the trailers. */
export function commitMessage(o: {
  readonly subject: string;
  readonly lines: readonly string[];
  readonly objects: readonly KeptObject[];
  readonly writeId: string;
}): string {
  const list = [...new Set(o.lines)].map((line) => `- ${line}\n`).join("");
  const objects = o.objects.map((one) => `${objectTrailer}: ${JSON.stringify(one)}\n`).join("");
  return `${o.subject}\n\n${list === "" ? "" : `${list}\n`}${objects}${writeTrailer}: ${o.writeId}\n`;
}

/** The objects that the trailers of a commit name, one JSON in each line. What is not ours to read is left out: anybody may write a commit. */
export function keptObjects(trailers: string): readonly KeptObject[] {
  return trailers.split("\n").flatMap((line) => {
    const kept = line === "" ? null : parseKept(line);
    return kept === null ? [] : [kept];
  });
}

function parseKept(json: string): KeptObject | null {
  try {
    const { key, metadata = {}, contentType } = JSON.parse(json) as Partial<Record<keyof KeptObject, unknown>>;
    if (typeof key !== "string" || typeof metadata !== "object" || metadata === null) return null;
    checkMetadata(metadata as Record<string, string>);
    const kept = { key, metadata: Object.freeze({ ...(metadata as Record<string, string>) }) };
    return typeof contentType === "string" ? { ...kept, contentType } : kept;
  } catch {
    return null;
  }
}
