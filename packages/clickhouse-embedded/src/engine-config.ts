import type { StartMessage } from "./messages.js";

export async function engineArguments(_o: StartMessage): Promise<string[]> {
  return [];
}
