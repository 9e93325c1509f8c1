import { randomUUID } from "node:crypto";

/** A new id for a query or a tag. */
export const newId = (): string => randomUUID();
