// Goal: a process that was stopped past a deadline uses a reply that came meanwhile, and says how late it was where none
// did. Method: a child with requests under way is stopped by SIGSTOP, in its poll phase or amid JavaScript, the replies
// arrive in its sockets (read from the kernel's table), and it goes on when the deadline is past. Its time stands still until
// then, so that no machine is too slow to have it stopped before.
import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { systemClock } from "@holdfast/deadline-http";
import { withServer, type Answer } from "../support/scripted-server.js";
import { kernelQueues, startClient } from "../support/stopped-process.js";

const boundMs = 300;
const lateMs = 300;

interface End {
  readonly kind: string;
  readonly answer: "reply" | "silence";
  readonly answered: boolean;
  readonly tookMs: number;
  readonly code?: string;
  readonly outcome?: string;
  readonly message?: string;
}
type Told = Partial<End> & { readonly ready?: number; readonly blocking?: boolean };

async function stopped(amid: "poll" | "javascript"): Promise<End[]> {
  const held: { response: ServerResponse; reply: boolean; port: number }[] = [];
  const server: Answer = (response, { statement }) => {
    if (statement.includes("first")) response.end('{"a":"1"}\n');
    else held.push({ response, reply: statement.includes("reply"), port: response.socket?.remotePort ?? 0 });
  };
  return withServer([server], async ({ url, port }) => {
    const client = startClient<Told>("stopped.ts", url, boundMs, boundMs + lateMs);
    const { told } = client;
    const count = (): number => told.find(({ ready }) => ready !== undefined)?.ready ?? Infinity;
    await client.until(() => held.length >= count());
    if (amid === "javascript") await client.block();
    await client.stop();
    // Its timers go on: they wake no later than this, and find that their time has not come.
    await systemClock.sleep(boundMs);
    expect(
      told.some(({ kind }) => kind !== undefined),
      "it ended before it was stopped",
    ).toBe(false);
    const replies = held.filter(({ reply }) => reply);
    for (const { response } of replies) response.end('{"a":"1"}\n');
    await client.until(() => {
      const { unread } = kernelQueues(port);
      return replies.every((one) => (unread.get(one.port) ?? 0) > 0);
    });
    client.goOn();
    await client.over;
    return told.filter((one): one is End => one.kind !== undefined);
  });
}

describe.runIf(process.platform === "linux").each(["poll", "javascript"] as const)("stopped amid its %s", (amid) => {
  it("DL-29 replies that lie in the sockets are used, and without one the error says how late the loop was", async () => {
    const ends = await stopped(amid);
    expect(ends).toHaveLength(10);
    for (const end of ends) {
      expect(end.tookMs, end.kind).toBeGreaterThan(boundMs);
      if (end.answer === "reply") {
        expect(end, end.kind).toMatchObject({ answered: true });
        continue;
      }
      expect(end, end.kind).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "unknown" });
      const [, told] = /the event loop was (\d+) ms late/.exec(end.message ?? "") ?? [];
      expect(Number(told), `${end.kind}: ${end.message}`).toBeGreaterThanOrEqual(lateMs);
    }
  });
});
