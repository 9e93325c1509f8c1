const canonical = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** Whether `text` is a UUID as this package writes them: lower case, with dashes. */
export function isUuid(text: unknown): text is string {
  return typeof text === "string" && text.length === 36 && canonical.test(text);
}

/** The text of the 16 bytes at `at`. */
export function uuidText(bytes: Buffer, at: number): string {
  const hex = bytes.toString("hex", at, at + 16);
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** Writes the 16 bytes of a canonical UUID, in the order of its text. */
export function writeUuid(text: string, into: Buffer, at: number): void {
  into.write(text.replaceAll("-", ""), at, 16, "hex");
}
