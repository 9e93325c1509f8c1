// Goal: what a test may add to its limits is the machine's lateness and not the engine's, and a probe that cannot measure says so. Method: servers
// in place of the engine, which refuse, or stop answering, when the test says so.
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Lateness, until } from "@holdfast-private/tests-machine";
import { expect, it, onTestFinished } from "vitest";

async function engine(answer: (response: ServerResponse, n: number) => void): Promise<{ url: string }> {
  let requests = 0;
  const server = createServer((_, response) => answer(response, (requests += 1)));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

it.each([401, 403, 503])(
  "an engine that answers with status %i is no round trip, and the start says so",
  async (status) => {
    const { url } = await engine((response) => response.writeHead(status).end());
    await expect(Lateness.start({ url })).rejects.toThrow(
      `the probe of the engine failed: it answered with status ${status}`,
    );
  },
);

it("an engine that refuses later leaves no pace, but the machine's lateness", async () => {
  const { url } = await engine((response, n) => response.writeHead(n > 20 ? 503 : 200).end());
  await using lateness = await Lateness.start({ url });
  const failed = (): Promise<string> => lateness.pace().then(String, String);
  await until("it has been refused", async () => (await failed()).includes("status 503"));
  expect(await lateness.sinceMs(performance.now())).toBeGreaterThanOrEqual(0);
});

it("an engine that does not answer adds no lateness", async () => {
  let stalled = false;
  const { url } = await engine((response, n) => (n > 20 ? (stalled = true) : response.end("1")));
  await using lateness = await Lateness.start({ url });
  await until("a round trip hangs", () => stalled);
  // The longer it hangs, the more it would count. A machine that is late itself has a moment at last in which it is not.
  let from = performance.now();
  await until("a moment without much lateness", async () => {
    if (performance.now() - from < 200) return false;
    const lateMs = await lateness.sinceMs(from);
    from = performance.now();
    return lateMs < 100;
  });
});

it("a probe that has ended rejects every question", async () => {
  const lateness = await Lateness.start();
  const asked = Promise.allSettled([lateness.pace(), lateness.sinceMs(0)]);
  await lateness[Symbol.asyncDispose]();
  await asked;
  await expect(lateness.pace()).rejects.toThrow("the probe of the machine has ended");
});
