// Agents of node:http for tests, destroyed when the test is over.
import { Agent } from "node:http";
import { onTestFinished } from "vitest";

export function agent(o: object = {}): Agent {
  const made = new Agent({ keepAlive: true, ...o });
  onTestFinished(() => made.destroy());
  return made;
}
/** How many requests wait for a socket. */
export const queued = ({ requests }: Agent): number => Object.values(requests).flat().length;
