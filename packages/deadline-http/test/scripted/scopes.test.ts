// Goal: each of many requests ends with its own scope, and none is sent from a scope that is over. Method: real sockets, few enough that requests
// wait for one; a server that answers when the test says so.
import { describe, expect, it } from "vitest";
import { detached, instantAfter, systemClock, within, withDeadline } from "@holdfast/deadline-http";
import { VirtualClock } from "@holdfast/deadline-http/testing";
import { until } from "@holdfast-private/tests-machine";
import { agent, queued } from "../support/agents.js";
import { boundClient, failure, read, write, type Failed } from "../support/clickhouse.js";
import { answer, arrivals, withServer, type Answer } from "../support/scripted-server.js";
import { endsByBound } from "../support/virtual-bound.js";

describe("many requests", () => {
  it("every one of 50 parallel scopes over two sockets ends at its own deadline", async () => {
    await withServer([answer.silent], async (server) => {
      const http_agent = agent({ maxSockets: 2 });
      const client = boundClient(server.url, {}, { http_agent });
      const clock = new VirtualClock();
      const calls = Array.from({ length: 50 }, async (_, n) => {
        const ms = 100 + n * 20;
        const inner = (): Promise<unknown> => within(5_000, () => read(client), { name: "nested", clock });
        await failure(() => within(ms, inner, { name: `scope ${n}`, clock }));
        return [ms, clock.now()];
      });
      await until("two are sent, and the others wait", () => server.received.length + queued(http_agent) === 50);
      await clock.advance(5_000);
      for (const [ms, endedAt] of await Promise.all(calls)) expect(endedAt).toBe(ms);
    });
  });

  it("a body that is read after its scope was left, or after its deadline, fails with that", async () => {
    await withServer([answer.rows('{"a":1}\n')], async (server) => {
      const clock = new VirtualClock();
      const client = boundClient(server.url, { requestTimeoutMs: 100, clock });
      const query = { query: "SELECT a FROM t", format: "JSONEachRow" } as const;
      const left = await within(1_000, () => client.query(query), { clock });
      expect(await failure(() => left.json())).toMatchObject({ code: "SCOPE_CLOSED" });
      const late = await client.query(query);
      await clock.advance(100);
      expect(await failure(() => late.text())).toMatchObject({ code: "DEADLINE_EXCEEDED" });
    });
  });
});

describe("scopes over real sockets", () => {
  it("DL-18 a forgotten await and a timer in a scope that was left reach no server, and the next scope works", async () => {
    await withServer([answer.ok], async (server) => {
      const client = boundClient(server.url);
      const late: Promise<Failed>[] = [];
      let left = false;
      const stretch = (): Promise<unknown> =>
        withDeadline(instantAfter(systemClock.now(), 600_000), async () => {
          const afterwards = async (): Promise<void> => {
            while (!left) await systemClock.sleep(5);
          };
          const forgotten = afterwards().then(() => write(client));
          late.push(failure(() => forgotten));
          const timer = (): void => {
            if (left) late.push(failure(() => write(client)));
            else systemClock.setTimer(5, timer);
          };
          timer();
          await write(client);
        });
      await stretch();
      left = true;
      while (late.length < 2) await systemClock.sleep(5);
      for (const end of await Promise.all(late))
        expect(end).toMatchObject({ code: "SCOPE_CLOSED", outcome: "not-sent" });
      expect([late.length, server.received.length]).toEqual([2, 1]);
      await write(client);
      expect(server.received).toHaveLength(2);
    });
  });

  it("DL-20 the loss of one request cancels two that wait for a socket: no byte of them arrives", async () => {
    let release: () => void = () => undefined;
    const held: Answer = (response) => {
      release = () => response.end();
    };
    await withServer([held], async (server) => {
      const http_agent = agent({ maxSockets: 1 });
      const client = boundClient(server.url, {}, { http_agent });
      let lost = false;
      const [sent, ...losers] = await withDeadline(
        () => (lost ? "gone" : instantAfter(systemClock.now(), 600_000)),
        async () => {
          const running = write(client).then(() => "answered");
          await arrivals(server, 1);
          const waiting = [failure(() => write(client)), failure(() => write(client))];
          await until("two wait for the socket", () => queued(http_agent) === 2);
          lost = true;
          const ends = await Promise.all([...waiting, failure(() => write(client))]);
          release();
          return [await running, ...ends];
        },
      );
      expect(sent).toBe("answered");
      for (const one of losers) expect(one).toMatchObject({ code: "LEASE_LOST", outcome: "not-sent" });
      // On the one socket it comes after whatever was to be sent before.
      const last = write(client);
      await arrivals(server, 2);
      release();
      await last;
      expect(server.received).toHaveLength(2);
    });
  });

  it("DL-22 a token asked for in a scope of 300 ms serves a patient one: one request", async () => {
    let release = (): void => undefined;
    const held: Answer = (response) => (release = () => void response.end('{"token":"t"}\n'));
    await withServer([held], async (server) => {
      const client = boundClient(server.url);
      let asked: Promise<unknown> | null = null;
      const token = (): Promise<unknown> => detached(() => (asked ??= within(600_000, () => read(client))));
      const hasty = endsByBound(token, () => server.received.length === 1);
      const patient = within(600_000, token);
      expect(await hasty).toMatchObject({ code: "DEADLINE_EXCEEDED", outcome: "not-sent" });
      release();
      expect(await patient).toEqual([{ token: "t" }]);
      expect(server.received).toHaveLength(1);
    });
  });

  it("an insert on a pooled socket that is reset under it is unknown, and the server sees it once", async () => {
    await withServer([answer.ok, answer.reset], async (server) => {
      const client = boundClient(server.url);
      await write(client);
      expect(await failure(() => write(client))).toMatchObject({ code: "REQUEST_FAILED", outcome: "unknown" });
      expect(server.received.map(({ connection }) => connection)).toEqual([0, 0]);
    });
  });
});
