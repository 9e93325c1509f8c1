// Goal: the limits that a call gives the server end before its own bound, wherever it waited before. Method: real sockets; time passes on the
// virtual clock while a call waits for a socket or a name.
import type { LookupFunction } from "node:net";
import { describe, expect, it } from "vitest";
import { instantAfter, within, withDeadline } from "@holdfast/deadline-http";
import type { BindOptions } from "@holdfast/deadline-http/clickhouse";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { until } from "@holdfast-private/tests-machine";
import { agent, queued } from "../support/agents.js";
import { boundClient, failure, write } from "../support/clickhouse.js";
import { answer, arrivals, withServer, type Answer, type Received } from "../support/scripted-server.js";

describe("the computed settings", () => {
  const settings: BindOptions["settings"] = ({ msLeft }) => ({
    max_execution_time: msLeft / 1_000,
    insert_quorum: "2",
  });
  const capOf = (request: Received | undefined): number =>
    Number(request?.url.searchParams.get("max_execution_time")) * 1_000;

  it("DL-24 after 600 ms in the queue the server's cap still ends by the client's deadline", async () => {
    let release = (): void => undefined;
    const held: Answer = (response) => (release = () => void response.end());
    await withServer([held, answer.ok], async (server) => {
      const http_agent = agent({ maxSockets: 1 });
      const client = boundClient(server.url, { settings }, { http_agent });
      const first = write(client);
      await arrivals(server, 1);
      const clock = new VirtualClock();
      const second = withDeadline(instantAfter(clock.now(), 1_500), () => write(client), { clock });
      await until("it waits for the socket", () => queued(http_agent) === 1);
      await clock.advance(600);
      release();
      await Promise.all([first, second]);
      expect(capOf(server.received[1])).toBe(900);
      expect(server.received[1]?.url.searchParams.get("insert_quorum")).toBe("2");
    });
  });

  it("DL-24 and after a connect of 400 ms", async () => {
    let find: (() => void) | null = null;
    const lookup: LookupFunction = (_name, _options, callback) => (find = () => callback(null, "127.0.0.1", 4));
    await withServer([answer.ok], async (server) => {
      const http_agent = agent({ lookup, autoSelectFamily: false });
      const client = boundClient(`http://localhost:${server.port}`, { settings }, { http_agent });
      const clock = new VirtualClock();
      const call = withDeadline(instantAfter(clock.now(), 1_500), () => write(client), { clock });
      await until("the name is asked for", () => find !== null);
      await clock.advance(400);
      find!();
      await call;
      expect(capOf(server.received[0])).toBe(1_100);
    });
  });

  it("DL-24 an attempt whose cap would outlast the deadline is withheld", async () => {
    await withServer([answer.ok], async (server) => {
      const clock = new VirtualClock();
      const client = boundClient(server.url, { settings: () => ({ max_execution_time: 5 }) });
      const failed = await failure(() => within(1_000, () => write(client), { clock }));
      expect(failed).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
      expect(failed.message).toContain("max_execution_time of 5000 ms would end after");
      await within(6_000, () => write(client), { clock });
      expect(server.received).toHaveLength(1);
    });
  });
});
