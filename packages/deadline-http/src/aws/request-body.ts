import { Readable } from "node:stream";

/** Members of the command's input that can be read once only. Text, buffers, views and blobs can be sent any number of times. */
export function onceOnly(command: object): readonly object[] {
  const input: unknown = Reflect.get(command, "input");
  if (typeof input !== "object" || input === null) return [];
  const members: unknown[] = Object.values(input);
  return members.filter((value) => typeof value === "object" && value !== null && isStream(value)) as object[];
}

const isStream = (value: object): boolean =>
  "pipe" in value || "getReader" in value || (Symbol.asyncIterator in value && !Array.isArray(value));

/** Proved that nothing was taken from it: nobody has read, listened or piped. */
export function untouched(stream: object): boolean {
  if (stream instanceof Readable) {
    return (
      stream.readableFlowing === null &&
      !Readable.isDisturbed(stream) &&
      !stream.destroyed &&
      stream.listenerCount("data") + stream.listenerCount("readable") === 0
    );
  }
  // Node's types do not know that it takes the platform's streams too; its documentation does.
  if (stream instanceof ReadableStream) return !stream.locked && !Readable.isDisturbed(stream as unknown as Readable);
  return false;
}
